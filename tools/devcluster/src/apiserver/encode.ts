import type { Representation } from "./negotiate-form.ts";
import { type JsonObject, removeKey } from "./json.ts";
import { buildApiVersion, type Resource } from "./resource.ts";
import { buildTable, buildPartialMetadata, type TableOptions } from "./table.ts";

/** The requested form of objects. */
export type ObjectForm = {
  readonly resource: Resource;
  readonly form: Representation;
  readonly includeObject: TableOptions["includeObject"];
};

/** Builds one object in the requested form. */
export function buildItem(view: ObjectForm, object: JsonObject, nowMs: number): JsonObject {
  switch (view.form) {
    case "json":
      return object;
    case "metadata":
      return buildPartialMetadata(object);
    case "table":
      return table(view, [object], { resourceVersion: getVersion(object) }, nowMs, true);
  }
}

export function buildList(
  view: ObjectForm,
  objects: readonly JsonObject[],
  metadata: JsonObject,
  nowMs: number,
): JsonObject {
  const { resource, form } = view;
  if (form === "table") return table(view, objects, metadata, nowMs, true);
  if (form === "metadata") {
    const items = objects.map(buildPartialMetadata);
    return { kind: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1", metadata, items };
  }
  // Items of a built-in kind's list have no kind and apiVersion.
  const items =
    resource.schema === undefined ? objects.map((object) => removeKey(object, "kind", "apiVersion")) : objects;
  return { kind: `${resource.kind}List`, apiVersion: buildApiVersion(resource), metadata, items };
}

/** Builds the object of a watch event; only the first has columns. */
export function buildWatched(view: ObjectForm, object: JsonObject, nowMs: number, first: boolean): JsonObject {
  if (view.form !== "table") return buildItem(view, object, nowMs);
  return table(view, [object], { resourceVersion: getVersion(object) }, nowMs, first);
}

function table(
  view: ObjectForm,
  objects: readonly JsonObject[],
  metadata: JsonObject,
  nowMs: number,
  withColumns: boolean,
): JsonObject {
  const { resource, includeObject } = view;
  return buildTable(resource.columns, objects, { nowMs, metadata, withColumns, includeObject });
}

function getVersion(object: JsonObject): string {
  const metadata = object["metadata"];
  const version =
    metadata !== null && typeof metadata === "object" && "resourceVersion" in metadata ? metadata.resourceVersion : "";
  return typeof version === "string" ? version : "";
}
