import { isDeepStrictEqual } from "node:util";

/** The result of JSON.parse. Objects of the API are kept and passed around in this form, and never changed in place. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export type JsonObject = { readonly [key: string]: JsonValue };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isList(value: unknown): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** The value at a path of own keys; undefined when it is missing. Never finds inherited properties. */
export function at(value: JsonValue | undefined, ...path: readonly string[]): JsonValue | undefined {
  let found: JsonValue | undefined = value;
  for (const key of path) {
    if (!isObject(found) || !Object.hasOwn(found, key)) return undefined;
    found = found[key];
  }
  return found;
}

/** Returns the text at a path; "" if it is missing or no text. */
export function getText(value: JsonValue | undefined, ...path: readonly string[]): string {
  const found = at(value, ...path);
  return typeof found === "string" ? found : "";
}

export function findNumber(value: JsonValue | undefined, ...path: readonly string[]): number | undefined {
  const found = at(value, ...path);
  return typeof found === "number" ? found : undefined;
}

export function getList(value: JsonValue | undefined, ...path: readonly string[]): readonly JsonValue[] {
  const found = at(value, ...path);
  return isList(found) ? found : [];
}

export function getObject(value: JsonValue | undefined, ...path: readonly string[]): JsonObject {
  const found = at(value, ...path);
  return isObject(found) ? found : {};
}

/** Texts of a list; other values are left out. */
export function getTexts(value: JsonValue | undefined, ...path: readonly string[]): string[] {
  return getList(value, ...path).filter((item) => typeof item === "string");
}

/** The object with another value at the path; undefined removes the present one. Missing objects on the way are created for a value. */
export function setAt(object: JsonObject, path: readonly string[], value: JsonValue | undefined): JsonObject {
  const [key, ...rest] = path;
  if (key === undefined) return object;
  if (rest.length === 0) return value === undefined ? removeKey(object, key) : withKey(object, key, value);
  if (value === undefined && !isObject(at(object, key))) return object;
  return withKey(object, key, setAt(getObject(object, key), rest, value));
}

/** Safe for any key: a computed `__proto__` is an ordinary key. */
export function withKey(object: JsonObject, key: string, value: JsonValue): JsonObject {
  return { ...object, [key]: value };
}

export function removeKey(object: JsonObject, ...keys: readonly string[]): JsonObject {
  if (!keys.some((key) => Object.hasOwn(object, key))) return object;
  return mapEntries(object, (key, value) => (keys.includes(key) ? undefined : value));
}

/** Maps values, in order; undefined leaves the key out. An object in which nothing changes is returned itself. */
export function mapEntries(
  object: JsonObject,
  map: (key: string, value: JsonValue) => JsonValue | undefined,
): JsonObject {
  const entries = Object.entries(object);
  let made: Record<string, JsonValue> | undefined;
  for (const [index, [key, value]] of entries.entries()) {
    const mapped = map(key, value);
    // Copied from the first change on. Undefined fields, which callers in this process may pass, are dropped.
    if (mapped !== undefined && made === undefined && mapped === value) continue;
    made ??= buildCopy(entries.slice(0, index));
    if (mapped !== undefined) setOwn(made, key, mapped);
  }
  return made ?? object;
}

function buildCopy(entries: readonly (readonly [string, JsonValue])[]): Record<string, JsonValue> {
  const made: Record<string, JsonValue> = {};
  for (const [key, value] of entries) setOwn(made, key, value);
  return made;
}

function setOwn(made: Record<string, JsonValue>, key: string, value: JsonValue): void {
  // An assignment would set the prototype.
  if (key === "__proto__") Object.defineProperty(made, key, { ...OWN, value });
  else made[key] = value;
}

/** Maps items, in order. A list in which nothing changes is returned itself. */
export function mapItems(
  list: readonly JsonValue[],
  map: (item: JsonValue, index: number) => JsonValue,
): readonly JsonValue[] {
  const made = list.map(map);
  return made.every((item, index) => item === list[index]) ? list : made;
}

const OWN = { enumerable: true, writable: true, configurable: true };

/** Own keys first, in order, then those of `base` that are missing. */
export function withDefaults(object: JsonObject, base: JsonObject): JsonObject {
  const missing = Object.entries(base).filter(([key]) => !Object.hasOwn(object, key));
  return missing.length === 0 ? object : Object.fromEntries([...Object.entries(object), ...missing]);
}

export function isSameJson(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  return a === b || isDeepStrictEqual(a, b);
}
