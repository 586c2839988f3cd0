import { definitionOf, definitions, referenceOf, resolveSchema, type Schema } from "../definitions.ts";
import { at, isList, isObject, type Json, objectAt, textAt, textsAt } from "../json.ts";
import { apiVersionOf, type Resource } from "../resource.ts";

/** How the parts of a value can belong to somebody. */
export type Shape =
  /** One value; `type` is undefined where any is allowed. */
  | { readonly is: "scalar"; readonly type: "string" | "number" | "boolean" | undefined }
  /** Belongs to somebody as a whole. */
  | { readonly is: "atomic" }
  /** Known by its value only. */
  | { readonly is: "untyped" }
  | { readonly is: "map"; field(key: string): Shape | undefined; readonly other: Shape | undefined }
  | {
      readonly is: "list";
      /** What tells items apart: the value itself, or some fields of it. */
      readonly keys: readonly string[] | "value";
      readonly items: Shape;
      /** The values of keys that are not given. */
      defaultOf(key: string): Json | undefined;
    };

const VALUES = new Set([
  "io.k8s.apimachinery.pkg.api.resource.Quantity",
  "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
]);
const ANY: Shape = { is: "scalar", type: undefined };
const ATOMIC: Shape = { is: "atomic" };
const UNTYPED: Shape = { is: "untyped" };
const cache = new WeakMap<Schema, Shape>();

export function shapeOfResource(resource: Resource): Shape {
  const name = definitionOf(apiVersionOf(resource), resource.kind);
  return shapeOf(resource.schema ?? (name === undefined ? {} : objectAt(definitions(), name)));
}

function shapeOf(schema: Schema): Shape {
  const known = cache.get(schema);
  if (known !== undefined) return known;
  const shape = buildShape(schema);
  cache.set(schema, shape);
  return shape;
}

function buildShape(schema: Schema): Shape {
  if (VALUES.has(referenceOf(schema))) return ANY;
  const resolved = resolveSchema(schema);
  if (resolved["x-kubernetes-int-or-string"] === true) return ANY;
  switch (textAt(resolved, "type")) {
    case "string":
      return { is: "scalar", type: "string" };
    case "integer":
    case "number":
      return { is: "scalar", type: "number" };
    case "boolean":
      return { is: "scalar", type: "boolean" };
    case "array":
      return listShape(resolved);
    default:
      return mapShape(resolved);
  }
}

function mapShape(schema: Schema): Shape {
  if (textAt(schema, "x-kubernetes-map-type") === "atomic") return ATOMIC;
  const properties = objectAt(schema, "properties");
  const rest = schema["additionalProperties"];
  const keepsUnknown = schema["x-kubernetes-preserve-unknown-fields"] === true;
  const hasFields = Object.keys(properties).length > 0;
  if (!hasFields && !isObject(rest)) return UNTYPED;
  return {
    is: "map",
    field: (key) => {
      const property = Object.hasOwn(properties, key) ? properties[key] : undefined;
      return isObject(property) ? shapeOf(property) : undefined;
    },
    other: isObject(rest) ? shapeOf(rest) : keepsUnknown ? UNTYPED : undefined,
  };
}

function listShape(schema: Schema): Shape {
  const items = isObject(schema["items"]) ? schema["items"] : {};
  const type = textAt(schema, "x-kubernetes-list-type");
  const keys = textsAt(schema, "x-kubernetes-list-map-keys");
  if (type !== "set" && (type !== "map" || keys.length === 0)) return ATOMIC;
  const properties = objectAt(resolveSchema(items), "properties");
  return {
    is: "list",
    keys: type === "set" ? "value" : keys,
    items: shapeOf(items),
    defaultOf: (key) => at(properties, key, "default"),
  };
}

/** The shape of a value of which only the value is known. */
export function shapeOfValue(shape: Shape, value: Json | undefined): Shape {
  if (shape.is !== "untyped") return shape;
  if (isList(value)) return ATOMIC;
  return isObject(value) ? { is: "map", field: () => undefined, other: UNTYPED } : ANY;
}

/** The key of an item of a list in a set of fields. */
export function itemKey(shape: Extract<Shape, { is: "list" }>, item: Json): string {
  const { keys } = shape;
  if (keys === "value") return `v:${JSON.stringify(item)}`;
  const given = keys.toSorted().map((key): [string, Json] => [key, at(item, key) ?? shape.defaultOf(key) ?? null]);
  return `k:${JSON.stringify(Object.fromEntries(given))}`;
}
