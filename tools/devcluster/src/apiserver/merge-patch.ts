import { isObject, type JsonValue, type JsonObject, mapEntries } from "./json.ts";

/** Applies a JSON merge patch (RFC 7386): objects merge, null removes, everything else replaces. */
export function mergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch;
  const base: JsonObject = isObject(target) ? target : {};
  const merged = mapEntries(base, (key, value) => {
    const change = Object.hasOwn(patch, key) ? patch[key] : undefined;
    if (change === undefined) return value;
    return change === null ? undefined : mergePatch(value, change);
  });
  const added = mapEntries(patch, (key, value) =>
    value === null || Object.hasOwn(base, key) ? undefined : mergePatch(undefined, value),
  );
  return Object.fromEntries([...Object.entries(merged), ...Object.entries(added)]);
}
