import { isList, isObject, type Json, type JsonObject, put, textAt } from "../json.ts";
import { compareFields, fieldsOf } from "./compare-fields.ts";
import { difference, type FieldSet, NOTHING } from "./field-set.ts";
import type { Shape } from "./field-shape.ts";

/** Where client-side apply keeps what it has applied. */
const ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration";
/** Who may go on with server-side apply where it had begun with the other. */
export const KUBECTL = "kubectl";

function lastApplied(object: JsonObject): string {
  return textAt(object, "metadata", "annotations", ANNOTATION);
}

/** The fields that client-side apply has written and that are still as it wrote them: they belong to the same person. */
export function ownedByLastApplied(shape: Shape, live: JsonObject): FieldSet {
  const applied = parse(lastApplied(live));
  if (applied === undefined || applied["apiVersion"] !== live["apiVersion"]) return NOTHING;
  const { changed, removed } = compareFields(shape, applied, live);
  return difference(difference(fieldsOf(shape, applied), changed), removed);
}

/** Keeps the record of client-side apply true, for an object that has one. */
export function syncLastApplied(object: JsonObject, config: JsonObject): JsonObject {
  if (lastApplied(object) === "") return object;
  const path = ["metadata", "annotations", ANNOTATION];
  return put(object, path, `${JSON.stringify(sortKeys(put(config, path, undefined)))}\n`);
}

function parse(text: string): JsonObject | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function sortKeys(value: Json): Json {
  if (isList(value)) return value.map(sortKeys);
  if (!isObject(value)) return value;
  const keys = Object.keys(value).sort();
  return Object.fromEntries(keys.map((key) => [key, sortKeys(value[key] ?? null)]));
}
