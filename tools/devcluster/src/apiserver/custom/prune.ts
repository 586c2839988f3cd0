import { isList, isObject, type JsonValue, type JsonObject, mapEntries, mapItems } from "../json.ts";
import { findFieldSchema, findItemSchema, areUnknownFieldsKept, type StructuralSchema } from "./structural.ts";

/** Fields that every Kubernetes object has, whatever its schema defines. */
const OBJECT_FIELDS = ["apiVersion", "kind", "metadata"];

export type PruneResult = {
  readonly object: JsonObject;
  /** Paths of dropped fields, in alphabetical order. */
  readonly unknown: readonly string[];
};

/** Drops fields that the schema does not have. */
export function pruneFields(schema: StructuralSchema, object: JsonObject): PruneResult {
  const unknown: string[] = [];
  const pruned = pruneObject(schema, object, "", { isRoot: true, unknown });
  return { object: pruned, unknown: unknown.sort() };
}

type Context = { readonly isRoot: boolean; readonly unknown: string[] };

function pruneValue(schema: StructuralSchema, value: JsonValue, path: string, unknown: string[]): JsonValue {
  if (isObject(value)) return pruneObject(schema, value, path, { isRoot: false, unknown });
  const items = findItemSchema(schema);
  if (!isList(value)) return value;
  if (items === undefined) return value;
  return mapItems(value, (item, index) => pruneValue(items, item, `${path}[${index}]`, unknown));
}

function pruneObject(
  schema: StructuralSchema,
  object: JsonObject,
  path: string,
  { isRoot, unknown }: Context,
): JsonObject {
  return mapEntries(object, (key, child) => {
    if (isRoot && OBJECT_FIELDS.includes(key)) return child;
    const place = path === "" ? key : `${path}.${key}`;
    const field = findFieldSchema(schema, key);
    if (field !== undefined) return pruneValue(field, child, place, unknown);
    if (areUnknownFieldsKept(schema) || schema["additionalProperties"] === true) return child;
    unknown.push(place);
    return undefined;
  });
}

/** Drops null where the schema does not permit it, as if it had not been written. */
export function withoutNulls(schema: StructuralSchema, value: JsonValue): JsonValue {
  if (isList(value)) {
    const items = findItemSchema(schema);
    return items === undefined ? value : mapItems(value, (item) => withoutNulls(items, item));
  }
  if (!isObject(value)) return value;
  return mapEntries(value, (key, child) => {
    const field = findFieldSchema(schema, key);
    if (field === undefined) return child;
    return child === null && field["nullable"] !== true ? undefined : withoutNulls(field, child);
  });
}
