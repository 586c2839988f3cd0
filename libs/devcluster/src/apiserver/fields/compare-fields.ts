import { isList, isObject, type Json, type JsonObject, sameJson } from "../json.ts";
import { type FieldSet, fieldSet, ITSELF, NOTHING, printKey, union } from "./field-set.ts";
import { itemKey, type Shape, shapeOfValue } from "./field-shape.ts";

/** What differs between two states of a value. */
export type Difference = {
  /** Added, or of another value. */
  readonly changed: FieldSet;
  readonly removed: FieldSet;
};

const SAME: Difference = { changed: NOTHING, removed: NOTHING };

export function compareFields(shape: Shape, before: Json | undefined, after: Json | undefined): Difference {
  if (before === after) return SAME;
  const known = shapeOfValue(shape, after ?? before);
  const isMap = known.is === "map" && isMapLike(before) && isMapLike(after);
  const isListed = known.is === "list" && isListLike(before) && isListLike(after);
  if (!isMap && !isListed) return compareLeaf(before, after);
  const parts = isMap
    ? compareMaps(known, mapOf(before), mapOf(after))
    : known.is === "list"
      ? compareLists(known, listOf(before), listOf(after))
      : [];
  if (parts.length === 0) return compareLeaf(before, after);
  return {
    changed: fieldSet(
      before === undefined,
      parts.map(([key, { changed }]) => [key, changed]),
    ),
    removed: fieldSet(
      after === undefined,
      parts.map(([key, { removed }]) => [key, removed]),
    ),
  };
}

function isMapLike(value: Json | undefined): boolean {
  return value === undefined || value === null || isObject(value);
}

function isListLike(value: Json | undefined): boolean {
  return value === undefined || value === null || isList(value);
}

function mapOf(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

function listOf(value: Json | undefined): readonly Json[] {
  return isList(value) ? value : [];
}

function compareLeaf(before: Json | undefined, after: Json | undefined): Difference {
  if (after === undefined) return { changed: NOTHING, removed: ITSELF };
  return before === undefined || !sameJson(before, after) ? { changed: ITSELF, removed: NOTHING } : SAME;
}

type Parts = (readonly [key: string, difference: Difference])[];

function compareMaps(shape: Extract<Shape, { is: "map" }>, before: JsonObject, after: JsonObject): Parts {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  const value = (object: JsonObject, key: string): Json | undefined =>
    Object.hasOwn(object, key) ? object[key] : undefined;
  return [...keys].map((key) => {
    const field = shape.field(key) ?? shape.other ?? { is: "untyped" };
    return [`f:${key}`, compareFields(field, value(before, key), value(after, key))];
  });
}

function compareLists(shape: Extract<Shape, { is: "list" }>, before: readonly Json[], after: readonly Json[]): Parts {
  const index = (list: readonly Json[]): Map<string, Json> => new Map(list.map((item) => [itemKey(shape, item), item]));
  const [old, next] = [index(before), index(after)];
  const keys = new Set([...old.keys(), ...next.keys()]);
  return [...keys].map((key) => [key, compareFields(shape.items, old.get(key), next.get(key))]);
}

/** The fields that a configuration names: what whoever applies it owns. */
export function fieldsOf(shape: Shape, value: Json): FieldSet {
  const known = shapeOfValue(shape, value);
  if (known.is === "list" && isList(value)) {
    return fieldSet(
      false,
      value.map((item) => [itemKey(known, item), union(ITSELF, fieldsOf(known.items, item))]),
    );
  }
  if (known.is === "map" && isObject(value)) {
    return fieldSet(
      false,
      Object.entries(value).map(([key, child]) => {
        const declared = known.field(key);
        const set = fieldsOf(declared ?? known.other ?? { is: "untyped" }, child);
        const isBlank = child === null || (isObject(child) && Object.keys(child).length === 0);
        return [`f:${key}`, isBlank || declared === undefined ? union(ITSELF, set) : set];
      }),
    );
  }
  return ITSELF;
}

/** Why a configuration does not fit its kind, as Kubernetes says it; undefined when it does. */
export function misfit(shape: Shape, value: Json, path = ""): string | undefined {
  const known = shapeOfValue(shape, value);
  if (value === null) return undefined;
  switch (known.is) {
    case "scalar":
      if (known.type === undefined || typeof value === known.type) return undefined;
      return `${path}: expected ${known.type === "number" ? "numeric (int or float)" : known.type}, got &value.valueUnstructured{Value:${printGo(value)}}`;
    case "map":
      if (!isObject(value)) return `${path}: expected map, got &value.valueUnstructured{Value:${printGo(value)}}`;
      return firstOf(Object.entries(value), ([key, child]) => {
        const field = known.field(key) ?? known.other;
        return field === undefined
          ? `${path}.${key}: field not declared in schema`
          : misfit(field, child, `${path}.${key}`);
      });
    case "list":
      if (!isList(value)) return `${path}: expected list, got &value.valueUnstructured{Value:${printGo(value)}}`;
      return misfitOfList(known, value, path);
    case "atomic":
    case "untyped":
      return undefined;
  }
}

function misfitOfList(shape: Extract<Shape, { is: "list" }>, list: readonly Json[], path: string): string | undefined {
  const seen = new Set<string>();
  return firstOf(list, (item) => {
    const key = itemKey(shape, item);
    const place = printKey(key);
    if (seen.has(key)) return `${path}: duplicate entries for key ${place}`;
    seen.add(key);
    return misfit(shape.items, item, path + place);
  });
}

function firstOf<T>(items: readonly T[], find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

function printGo(value: Json): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (isList(value)) return `[]interface {}{${value.map(printGo).join(", ")}}`;
  if (isObject(value)) {
    return `map[string]interface {}{${Object.entries(value)
      .map(([key, child]) => `${JSON.stringify(key)}:${printGo(child)}`)
      .join(", ")}}`;
  }
  return String(value);
}
