import { at, isList, isObject, type JsonValue, type JsonObject, getObject } from "../json.ts";
import { type Problem } from "../status.ts";
import { findItemSchema, getListKeys, type StructuralSchema } from "./structural.ts";

/** Finds duplicate items in lists of type set or map. */
export function checkListTypes(schema: StructuralSchema, value: JsonValue, path = ""): Problem[] {
  if (isList(value)) {
    const items = findItemSchema(schema);
    const inItems =
      items === undefined ? [] : value.flatMap((item, index) => checkListTypes(items, item, `${path}[${index}]`));
    return [...checkList(schema, value, path), ...inItems];
  }
  if (!isObject(value)) return [];
  const properties = getObject(schema, "properties");
  const rest = schema["additionalProperties"];
  return Object.entries(value).flatMap(([key, child]) => {
    const property = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (isObject(property)) return checkListTypes(property, child, path === "" ? key : `${path}.${key}`);
    return isObject(rest) ? checkListTypes(rest, child, `${path}[${key}]`) : [];
  });
}

function checkList(schema: StructuralSchema, list: readonly JsonValue[], path: string): Problem[] {
  const keys = getListKeys(schema);
  if (keys === undefined) return [];
  const seen = new Set<string>();
  const reported = new Set<string>();
  return list.flatMap((item, index) => {
    const shown = keys === "value" ? item : buildKey(item, keys);
    const identity = JSON.stringify(shown);
    if (!seen.has(identity)) {
      seen.add(identity);
      return [];
    }
    if (reported.has(identity)) return [];
    reported.add(identity);
    const message = `Duplicate value: ${identity}`;
    return [{ field: `${path}[${index}]`, reason: "FieldValueDuplicate", message }];
  });
}

function buildKey(item: JsonValue, keys: readonly string[]): JsonObject {
  return Object.fromEntries(
    keys.toSorted().flatMap((key) => {
      const value = at(item, key);
      return value === undefined ? [] : [[key, value] as const];
    }),
  );
}
