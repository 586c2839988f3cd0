import { answer, type Exchange } from "./answer.ts";
import { mediaType, parseJson, readBody, readObject } from "./body.ts";
import { at, isObject, type Json, type JsonObject, numberAt, objectAt, put, textAt } from "./json.ts";
import { jsonPatch } from "./json-patch.ts";
import { mergePatch } from "./merge-patch.ts";
import { printSelector } from "./object-selector.ts";
import { patchTypeOf } from "./patch.ts";
import { dryRunOf } from "./query.ts";
import type { Registry } from "./registry.ts";
import type { ScalePaths } from "./resource.ts";
import { badRequest, fail, methodNotAllowed, noSuchResource } from "./status.ts";
import { AGE, buildTable, type Column, column, NAME } from "./table.ts";
import type { View } from "./encode.ts";
import type { Target } from "./target.ts";

type ScaleDeps = { readonly registry: Registry; readonly nowMs: () => number };

const SCALE = { apiVersion: "autoscaling/v1", kind: "Scale" };

const COLUMNS: readonly Column[] = [
  NAME,
  { ...column("Desired", (scale) => numberAt(scale, "spec", "replicas") ?? 0), type: "integer" },
  { ...column("Available", (scale) => numberAt(scale, "status", "replicas") ?? 0), type: "integer" },
  AGE,
];

/** Shows and changes how many replicas an object wants, in one form for all kinds. */
export async function serveScale(
  deps: ScaleDeps,
  exchange: Exchange,
  { target, view }: { readonly target: Target; readonly view: View },
): Promise<void> {
  const paths = target.resource.scale ?? fail(noSuchResource());
  const shown = (object: JsonObject): JsonObject => buildScale(object, paths);
  switch (exchange.request.method) {
    case "GET": {
      const scale = shown(deps.registry.get(target));
      answer(exchange, 200, view.form === "table" ? printScale(view, scale, deps.nowMs()) : scale);
      return;
    }
    case "PUT": {
      const dryRun = dryRunOf(exchange.query, "UpdateOptions");
      const scale = await readObject(exchange.request, SCALE);
      const { object } = deps.registry.update(target, {
        change: (current) => withReplicas(current ?? fail(noSuchResource()), scale, paths),
        dryRun,
      });
      answer(exchange, 200, shown(object));
      return;
    }
    case "PATCH": {
      const type = patchTypeOf(mediaType(exchange.request), false);
      const dryRun = dryRunOf(exchange.query, "PatchOptions");
      const patch = parseJson(await readBody(exchange.request), "error decoding patch");
      const { object } = deps.registry.update(target, {
        change: (current) => {
          const before = current ?? fail(noSuchResource());
          const scale =
            type === "application/json-patch+json" ? jsonPatch(shown(before), patch) : mergePatch(shown(before), patch);
          return withReplicas(before, scale, paths);
        },
        dryRun,
      });
      answer(exchange, 200, shown(object));
      return;
    }
    default:
      return fail(methodNotAllowed());
  }
}

function buildScale(object: JsonObject, { specReplicas, statusReplicas, selector }: ScalePaths): JsonObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = objectAt(object, "metadata");
  const wanted = selector === undefined ? undefined : at(object, ...selector);
  const selected = isObject(wanted) ? printSelector(wanted) : typeof wanted === "string" ? wanted : "";
  const replicas = numberAt(object, ...specReplicas) ?? 0;
  const metadata = Object.entries({ name, namespace, uid, resourceVersion, creationTimestamp });
  return {
    kind: SCALE.kind,
    apiVersion: SCALE.apiVersion,
    metadata: Object.fromEntries(metadata.flatMap(([key, value]) => (value === undefined ? [] : [[key, value]]))),
    // Go leaves a 0 out here, and not in the status.
    spec: replicas === 0 ? {} : { replicas },
    status: {
      replicas: numberAt(object, ...statusReplicas) ?? 0,
      ...(selected === "" ? {} : { selector: selected }),
    },
  };
}

function printScale({ includeObject }: View, scale: JsonObject, nowMs: number): JsonObject {
  const metadata = { resourceVersion: textAt(scale, "metadata", "resourceVersion") };
  return buildTable(COLUMNS, [scale], { read: (object) => object, nowMs, metadata, withColumns: true, includeObject });
}

function withReplicas(object: JsonObject, scale: Json, { specReplicas }: ScalePaths): JsonObject {
  const replicas = at(scale, "spec", "replicas") ?? 0;
  if (typeof replicas !== "number" || !Number.isInteger(replicas)) {
    return fail(
      badRequest('Scale in version "v1" cannot be handled as a Scale: spec.replicas has to be a whole number'),
    );
  }
  const revision = textAt(scale, "metadata", "resourceVersion");
  const scaled = put(object, specReplicas, replicas);
  return revision === "" ? scaled : put(scaled, ["metadata", "resourceVersion"], revision);
}
