import { formatHumanDuration } from "./duration.ts";
import { type JsonValue, type JsonObject, getObject, getText } from "./json.ts";
import { getName } from "./metadata.ts";

/** One column of `kubectl get`. */
export type Column = {
  readonly name: string;
  /** A type of OpenAPI: string, integer, number, boolean, date. */
  readonly type: string;
  readonly format: string;
  /** Above 0: shown with `-o wide` only. */
  readonly priority: number;
  readonly description: string;
  readonly cell: (object: JsonObject, nowMs: number) => JsonValue;
};

export type TableOptions = {
  readonly nowMs: number;
  readonly metadata: JsonObject;
  /** False for later events of a watch. */
  readonly withColumns: boolean;
  readonly includeObject: "Metadata" | "Object" | "None";
};

/** Builds rows for kubectl. */
export function buildTable(
  columns: readonly Column[],
  objects: readonly JsonObject[],
  options: TableOptions,
): JsonObject {
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: options.metadata,
    columnDefinitions: options.withColumns ? columns.map(buildDefinition) : null,
    rows: objects.map((object): JsonObject => ({
      cells: columns.map((column) => column.cell(object, options.nowMs)),
      ...buildRowObject(object, options.includeObject),
    })),
  };
}

function buildDefinition({ name, type, format, priority, description }: Column): JsonObject {
  return { name, type, format, description, priority };
}

function buildRowObject(object: JsonObject, include: TableOptions["includeObject"]): JsonObject {
  if (include === "None") return {};
  return { object: include === "Object" ? object : buildPartialMetadata(object) };
}

/** The answer for clients that only want metadata. */
export function buildPartialMetadata(object: JsonObject): JsonObject {
  return { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: getObject(object, "metadata") };
}

export function defineColumn(name: string, cell: Column["cell"], wide?: "wide"): Column {
  return { name, type: "string", format: "", priority: wide === undefined ? 0 : 1, description: name, cell };
}

export const NAME: Column = {
  ...defineColumn("Name", getName),
  format: "name",
  description:
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
};

export const AGE: Column = defineColumn("Age", (object, nowMs) =>
  formatAge(getText(object, "metadata", "creationTimestamp"), nowMs),
);

export function formatAge(time: string, nowMs: number): string {
  return time === "" ? "<unknown>" : formatHumanDuration(nowMs - Date.parse(time));
}

export function formatOrNone(text: string): string {
  return text === "" ? "<none>" : text;
}
