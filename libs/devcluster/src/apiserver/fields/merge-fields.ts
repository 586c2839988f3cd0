import { isList, isObject, type Json, type JsonObject, withKey } from "../json.ts";
import { type FieldSet, isEmpty } from "./field-set.ts";
import { itemKey, type Shape, shapeOfValue } from "./field-shape.ts";

/** The value with all that a configuration says: maps and keyed lists merge, everything else is replaced. */
export function mergeFields(shape: Shape, value: Json | undefined, config: Json): Json {
  const known = shapeOfValue(shape, config);
  if (known.is === "map" && isObject(config)) return mergeMaps(known, isObject(value) ? value : {}, config);
  if (known.is === "list" && isList(config)) return mergeLists(known, isList(value) ? value : [], config);
  return config;
}

function mergeMaps(shape: Extract<Shape, { is: "map" }>, value: JsonObject, config: JsonObject): JsonObject {
  return Object.entries(config).reduce<JsonObject>((merged, [key, child]) => {
    const field = shape.field(key) ?? shape.other ?? { is: "untyped" };
    const current = Object.hasOwn(value, key) ? value[key] : undefined;
    return withKey(merged, key, mergeFields(field, current, child));
  }, value);
}

/** The order is that of the configuration; what only the value has stays before what followed it. */
function mergeLists(
  shape: Extract<Shape, { is: "list" }>,
  value: readonly Json[],
  config: readonly Json[],
): readonly Json[] {
  const wanted = new Map(config.map((item) => [itemKey(shape, item), item]));
  const current = new Map(value.map((item) => [itemKey(shape, item), item]));
  const merged: Json[] = [];
  const done = new Set<string>();
  const left = [...wanted.keys()];
  const put = (key: string): void => {
    const item = wanted.get(key);
    if (done.has(key) || item === undefined) return;
    done.add(key);
    merged.push(mergeFields(shape.items, current.get(key), item));
  };
  for (const [key, item] of current) {
    if (!wanted.has(key)) {
      merged.push(item);
      continue;
    }
    while (left.length > 0 && !done.has(key)) put(left.shift() ?? "");
  }
  left.forEach(put);
  return merged;
}

/** The value without the fields of a set; what is emptied by that goes too. Undefined when nothing is left. */
export function removeFields(shape: Shape, value: Json, set: FieldSet): Json | undefined {
  const known = shapeOfValue(shape, value);
  if (isEmpty(set)) return value;
  if (known.is === "map" && isObject(value)) {
    const left = Object.entries(value).flatMap(([key, child]) => {
      const field = known.field(key) ?? known.other ?? { is: "untyped" as const };
      const next = removeChild(field, child, set.below.get(`f:${key}`));
      return next === undefined ? [] : [[key, next] as const];
    });
    return left.length === 0 ? undefined : Object.fromEntries(left);
  }
  if (known.is === "list" && isList(value)) {
    const left = value.flatMap((item) => {
      const next = removeChild(known.items, item, set.below.get(itemKey(known, item)));
      return next === undefined ? [] : [next];
    });
    return left.length === 0 ? undefined : left;
  }
  return value;
}

function removeChild(shape: Shape, child: Json, set: FieldSet | undefined): Json | undefined {
  if (set === undefined) return child;
  return set.own ? undefined : removeFields(shape, child, set);
}
