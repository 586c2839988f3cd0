import { isList, isObject, type JsonValue, type JsonObject, mapItems, getObject, withKey } from "../json.ts";
import { findItemSchema, type StructuralSchema } from "./structural.ts";

/** Fills in the schema's defaults for missing fields; returns the value itself if none is missing. */
export function fillDefaults(schema: StructuralSchema, value: JsonValue): JsonValue {
  if (isList(value)) {
    const items = findItemSchema(schema);
    return items === undefined ? value : mapItems(value, (item) => fillDefaults(items, item));
  }
  return isObject(value) ? fillObject(schema, value) : value;
}

function fillObject(schema: StructuralSchema, value: JsonObject): JsonObject {
  let filled = value;
  for (const [key, property] of Object.entries(getObject(schema, "properties"))) {
    if (!isObject(property)) continue;
    const given = Object.hasOwn(value, key) ? value[key] : undefined;
    const current = given ?? property["default"];
    const isMissing = given === undefined || (given === null && property["nullable"] !== true);
    if (isMissing && current === undefined) continue;
    const next = fillDefaults(property, (isMissing ? current : given) ?? null);
    if (next !== given) filled = withKey(filled, key, next);
  }
  const rest = schema["additionalProperties"];
  if (!isObject(rest)) return filled;
  for (const [key, child] of Object.entries(filled)) {
    const next = fillDefaults(rest, child);
    if (next !== child) filled = withKey(filled, key, next);
  }
  return filled;
}
