import { at, isObject, type JsonValue, type JsonObject, getObject, getText } from "../json.ts";

/** A structural schema of a CustomResourceDefinition, as stored. */
export type StructuralSchema = JsonObject;

/** Returns the schema of an object's field; undefined if the schema does not have it. */
export function findFieldSchema(schema: StructuralSchema, key: string): StructuralSchema | undefined {
  const property = at(schema, "properties", key);
  if (isObject(property)) return property;
  const rest = schema["additionalProperties"];
  return isObject(rest) ? rest : undefined;
}

export function findItemSchema(schema: StructuralSchema): StructuralSchema | undefined {
  const items = schema["items"];
  return isObject(items) ? items : undefined;
}

/** Returns the direct child schemas. */
export function listChildren(schema: StructuralSchema): StructuralSchema[] {
  const rest = schema["additionalProperties"];
  const items = findItemSchema(schema);
  return [
    ...Object.values(getObject(schema, "properties")).filter(isObject),
    ...(isObject(rest) ? [rest] : []),
    ...(items === undefined ? [] : [items]),
  ];
}

/** Returns whether fields without a schema are kept. */
export function areUnknownFieldsKept(schema: StructuralSchema): boolean {
  return schema["x-kubernetes-preserve-unknown-fields"] === true;
}

export function isIntOrString(schema: StructuralSchema): boolean {
  return schema["x-kubernetes-int-or-string"] === true;
}

/** Returns the identity of list items: their keys, or their value; undefined: they have none. */
export function getListKeys(schema: StructuralSchema): readonly string[] | "value" | undefined {
  switch (getText(schema, "x-kubernetes-list-type")) {
    case "set":
      return "value";
    case "map": {
      const keys = schema["x-kubernetes-list-map-keys"];
      return Array.isArray(keys) ? keys.filter((key) => typeof key === "string") : undefined;
    }
    default:
      return undefined;
  }
}

/** Finds the earlier list item that this item updates. */
export function correlateItems(
  schema: StructuralSchema,
  item: JsonValue,
  earlier: readonly JsonValue[],
): JsonValue | undefined {
  const keys = getListKeys(schema);
  if (keys === undefined || keys === "value") return undefined;
  const defaults = getObject(schema, "items", "properties");
  const identity = (one: JsonValue): string =>
    JSON.stringify(keys.map((key) => at(one, key) ?? at(defaults, key, "default") ?? null));
  const wanted = identity(item);
  return earlier.find((one) => identity(one) === wanted);
}
