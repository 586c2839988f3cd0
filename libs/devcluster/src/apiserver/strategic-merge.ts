import { isList, isObject, type Json, type JsonObject, listAt, mapEntries, sameJson, textAt } from "./json.ts";
import { badRequest, fail } from "./status.ts";

/** How Kubernetes merges a list: by a key of its elements, or as a set of plain values. Lists that are not named are replaced as a whole. */
type ListMerge = { readonly by: readonly string[] } | { readonly by: "value" };

const byKey = (...keys: string[]): ListMerge => ({ by: keys });

/** By the path of the list in its kind, indexes left out, or by its name alone where that is the same everywhere. */
const LISTS: Readonly<Record<string, ListMerge>> = {
  containers: byKey("name"),
  initContainers: byKey("name"),
  ephemeralContainers: byKey("name"),
  env: byKey("name"),
  volumes: byKey("name"),
  volumeMounts: byKey("mountPath"),
  volumeDevices: byKey("devicePath"),
  hostAliases: byKey("ip"),
  imagePullSecrets: byKey("name"),
  resourceClaims: byKey("name"),
  schedulingGates: byKey("name"),
  topologySpreadConstraints: byKey("topologyKey"),
  ownerReferences: byKey("uid"),
  conditions: byKey("type"),
  podIPs: byKey("ip"),
  hostIPs: byKey("ip"),
  finalizers: { by: "value" },
  podCIDRs: { by: "value" },
  "containers.ports": byKey("containerPort"),
  "initContainers.ports": byKey("containerPort"),
  "spec.ports": byKey("port"),
  "status.addresses": byKey("type"),
  secrets: byKey("name"),
};

const PATCH = "$patch";
const RETAIN = "$retainKeys";
const ORDER = "$setElementOrder/";
const DELETE = "$deleteFromPrimitiveList/";

/** Applies a strategic merge patch of a built-in kind: maps merge, known lists merge by their keys, with the directives that kubectl writes. */
export function strategicMerge(target: JsonObject, patch: JsonObject): JsonObject {
  return mergeObject(target, patch, []);
}

/** The merge keys of the list at a path of names, "value" for a set, undefined for a list that is replaced as a whole. */
export function listKeys(path: readonly string[]): readonly string[] | "value" | undefined {
  return listMerge(path)?.by;
}

function listMerge(path: readonly string[]): ListMerge | undefined {
  const name = path.at(-1) ?? "";
  const known = LISTS[path.slice(-2).join(".")] ?? LISTS[name];
  // The finalizers of a namespace's spec are atomic; those of metadata are a set.
  return name === "finalizers" && path[0] !== "metadata" ? undefined : known;
}

function mergeObject(target: JsonObject, patch: JsonObject, path: readonly string[]): JsonObject {
  const directive = textAt(patch, PATCH);
  if (directive === "delete") return {};
  const content = mapEntries(patch, (key, value) => (key.startsWith("$") ? undefined : value));
  if (directive === "replace") return plainObject(content);
  if (directive !== "" && directive !== "merge") fail(badRequest(`unknown patch type found: ${directive}`));

  const retained = listAt(patch, RETAIN);
  const base =
    retained.length === 0 ? target : mapEntries(target, (key, value) => (retained.includes(key) ? value : undefined));
  const merged = mapEntries(base, (key, value) => mergeField(key, value, patch, [...path, key]));
  const added = mapEntries(content, (key) =>
    Object.hasOwn(base, key) ? undefined : mergeField(key, undefined, patch, [...path, key]),
  );
  return Object.fromEntries([...Object.entries(merged), ...Object.entries(added)]);
}

function mergeField(
  key: string,
  value: Json | undefined,
  patch: JsonObject,
  path: readonly string[],
): Json | undefined {
  const change = Object.hasOwn(patch, key) ? patch[key] : undefined;
  const order = patch[ORDER + key];
  const gone = listAt(patch, DELETE + key);
  if (change === null) return undefined;
  if (isList(value) || isList(change)) {
    if (change === undefined && order === undefined && gone.length === 0) return value;
    const kept = (isList(value) ? value : []).filter((item) => !gone.some((one) => sameJson(one, item)));
    return mergeList(kept, isList(change) ? change : [], isList(order) ? order : undefined, path);
  }
  if (change === undefined) return value;
  if (!isObject(change)) return change;
  return mergeObject(isObject(value) ? value : {}, change, path);
}

function mergeList(
  target: readonly Json[],
  patch: readonly Json[],
  order: readonly Json[] | undefined,
  path: readonly string[],
): Json {
  const merge = listMerge(path);
  if (merge === undefined) return order === undefined || patch.length > 0 ? patch.map(plain) : target;
  if (merge.by === "value") {
    const added = patch.filter((item) => !target.some((one) => sameJson(one, item)));
    return sortByOrder([...target, ...added], order, (item) => JSON.stringify(item));
  }
  const keys = merge.by;
  const identity = (item: Json): string =>
    JSON.stringify(keys.map((key) => (isObject(item) ? (item[key] ?? null) : null)));
  if (patch.some((item) => textAt(item, PATCH) === "replace" && isObject(item) && Object.keys(item).length === 1)) {
    return patch.filter((item) => textAt(item, PATCH) === "").map(plain);
  }
  const merged = patch.reduce<Json[]>(
    (items, change) => {
      if (!isObject(change)) return fail(badRequest(`invalid element in list ${path.join(".")}: an object is needed`));
      const missing = keys.find((key) => !Object.hasOwn(change, key));
      if (missing !== undefined)
        return fail(badRequest(`map: ${JSON.stringify(change)} does not contain declared merge key: ${missing}`));
      return mergeElement(items, change, identity, path);
    },
    [...target],
  );
  return sortByOrder(merged, order, identity);
}

function mergeElement(
  items: readonly Json[],
  change: JsonObject,
  identity: (item: Json) => string,
  path: readonly string[],
): Json[] {
  const position = items.findIndex((item) => identity(item) === identity(change));
  if (textAt(change, PATCH) === "delete") return items.filter((_item, index) => index !== position);
  const current = items[position];
  if (current === undefined) return [...items, mergeObject({}, change, path)];
  return items.with(position, mergeObject(isObject(current) ? current : {}, change, path));
}

/** Elements that the order names come in that order; the others keep their place after the element they followed. */
function sortByOrder(
  items: readonly Json[],
  order: readonly Json[] | undefined,
  identity: (item: Json) => string,
): Json[] {
  if (order === undefined) return [...items];
  const wanted = order.map(identity);
  const named = items
    .filter((item) => wanted.includes(identity(item)))
    .sort((a, b) => wanted.indexOf(identity(a)) - wanted.indexOf(identity(b)));
  let next = 0;
  return items.map((item) => (wanted.includes(identity(item)) ? (named[next++] ?? item) : item));
}

/** A value of a patch as it is to be kept: without directives and nulls. */
function plain(value: Json): Json {
  if (isList(value)) return value.map(plain);
  return isObject(value) ? plainObject(value) : value;
}

function plainObject(value: JsonObject): JsonObject {
  return mapEntries(value, (key, child) => (child === null || key.startsWith("$") ? undefined : plain(child)));
}
