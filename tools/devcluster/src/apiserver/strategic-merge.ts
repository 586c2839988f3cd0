import { resolveSchema, type Schema } from "./definitions.ts";
import { isList, isObject, type JsonValue, type JsonObject, getList, mapEntries, isSameJson, getText } from "./json.ts";
import { badRequest, fail } from "./status.ts";

const PATCH = "$patch";
const RETAIN = "$retainKeys";
const ORDER = "$setElementOrder/";
const DELETE = "$deleteFromPrimitiveList/";

/** Applies a strategic merge patch of a built-in kind: maps merge, lists merge as the schema of the kind says, with the directives that kubectl writes. */
export function applyStrategicMerge(target: JsonObject, patch: JsonObject, schema: Schema): JsonObject {
  return mergeObject(target, patch, { schema, path: [] });
}

/** The position of a value, and its schema. */
type Place = { readonly schema: Schema; readonly path: readonly string[] };

function fieldAt({ schema, path }: Place, key: string): Place {
  const { properties, additionalProperties } = resolveSchema(schema);
  const field = isObject(properties) && Object.hasOwn(properties, key) ? properties[key] : additionalProperties;
  return { schema: isObject(field) ? field : {}, path: [...path, key] };
}

function findItemPlace({ schema, path }: Place): Place {
  const { items } = resolveSchema(schema);
  return { schema: isObject(items) ? items : {}, path };
}

/** The merge key of a list; "value" for a set of plain values; undefined for a list that is replaced as a whole. */
function mergeKey({ schema }: Place): string | undefined {
  const strategies = getText(schema, "x-kubernetes-patch-strategy").split(",");
  if (!strategies.includes("merge")) return undefined;
  return getText(schema, "x-kubernetes-patch-merge-key") || VALUE;
}

const VALUE = "value of the item";

function mergeObject(target: JsonObject, patch: JsonObject, place: Place): JsonObject {
  const directive = getText(patch, PATCH);
  if (directive === "delete") return {};
  const content = mapEntries(patch, (key, value) => (key.startsWith("$") ? undefined : value));
  if (directive === "replace") return plainObject(content);
  if (directive !== "" && directive !== "merge") fail(badRequest(`unknown patch type found: ${directive}`));

  const retained = getList(patch, RETAIN);
  const base =
    retained.length === 0 ? target : mapEntries(target, (key, value) => (retained.includes(key) ? value : undefined));
  const hasDirectives = content !== patch;
  const isNamed = (key: string): boolean =>
    Object.hasOwn(patch, key) ||
    (hasDirectives && (Object.hasOwn(patch, ORDER + key) || Object.hasOwn(patch, DELETE + key)));
  const merged = mapEntries(base, (key, value) =>
    isNamed(key) ? mergeField(key, value, patch, fieldAt(place, key)) : value,
  );
  const added = mapEntries(content, (key) =>
    Object.hasOwn(base, key) ? undefined : mergeField(key, undefined, patch, fieldAt(place, key)),
  );
  return { ...merged, ...added };
}

function mergeField(key: string, value: JsonValue | undefined, patch: JsonObject, place: Place): JsonValue | undefined {
  const change = Object.hasOwn(patch, key) ? patch[key] : undefined;
  const order = patch[ORDER + key];
  const gone = getList(patch, DELETE + key);
  if (change === null) return undefined;
  if (isList(value) || isList(change)) {
    if (change === undefined && order === undefined && gone.length === 0) return value;
    const kept = (isList(value) ? value : []).filter((item) => !gone.some((one) => isSameJson(one, item)));
    const merged = mergeList(kept, isList(change) ? change : [], isList(order) ? order : undefined, place);
    // A list that became empty is omitted, as in Kubernetes' own form.
    return merged.length === 0 && !(isList(change) && change.length === 0) ? undefined : merged;
  }
  if (change === undefined) return value;
  if (!isObject(change)) return change;
  return mergeObject(isObject(value) ? value : {}, change, place);
}

function mergeList(
  target: readonly JsonValue[],
  patch: readonly JsonValue[],
  order: readonly JsonValue[] | undefined,
  place: Place,
): readonly JsonValue[] {
  const key = mergeKey(place);
  if (key === undefined) return order === undefined || patch.length > 0 ? patch.map(plain) : target;
  if (key === VALUE) {
    const added = patch.filter((item) => !target.some((one) => isSameJson(one, item)));
    return sortByOrder([...target, ...added], order, (item) => JSON.stringify(item));
  }
  const identity = (item: JsonValue): string => JSON.stringify(isObject(item) ? (item[key] ?? null) : null);
  if (patch.some((item) => getText(item, PATCH) === "replace" && isObject(item) && Object.keys(item).length === 1)) {
    return patch.filter((item) => getText(item, PATCH) === "").map(plain);
  }
  const merged = patch.reduce<JsonValue[]>(
    (items, change) => {
      if (!isObject(change))
        return fail(badRequest(`invalid element in list ${place.path.join(".")}: an object is needed`));
      if (!Object.hasOwn(change, key)) {
        return fail(badRequest(`map: ${JSON.stringify(change)} does not contain declared merge key: ${key}`));
      }
      return mergeElement(items, change, identity, findItemPlace(place));
    },
    [...target],
  );
  return sortByOrder(merged, order, identity);
}

function mergeElement(
  items: readonly JsonValue[],
  change: JsonObject,
  identity: (item: JsonValue) => string,
  place: Place,
): JsonValue[] {
  const position = items.findIndex((item) => identity(item) === identity(change));
  if (getText(change, PATCH) === "delete") return items.filter((_item, index) => index !== position);
  const current = items[position];
  if (current === undefined) return [...items, mergeObject({}, change, place)];
  return items.with(position, mergeObject(isObject(current) ? current : {}, change, place));
}

/** Elements that the order names come in that order; the others keep their place after the element they followed. */
function sortByOrder(
  items: readonly JsonValue[],
  order: readonly JsonValue[] | undefined,
  identity: (item: JsonValue) => string,
): JsonValue[] {
  if (order === undefined) return [...items];
  const wanted = order.map(identity);
  const named = items
    .filter((item) => wanted.includes(identity(item)))
    .sort((a, b) => wanted.indexOf(identity(a)) - wanted.indexOf(identity(b)));
  let next = 0;
  return items.map((item) => (wanted.includes(identity(item)) ? (named[next++] ?? item) : item));
}

/** Returns a patch's value as it is stored: without directives and nulls. */
function plain(value: JsonValue): JsonValue {
  if (isList(value)) return value.map(plain);
  return isObject(value) ? plainObject(value) : value;
}

function plainObject(value: JsonObject): JsonObject {
  return mapEntries(value, (key, child) => (child === null || key.startsWith("$") ? undefined : plain(child)));
}
