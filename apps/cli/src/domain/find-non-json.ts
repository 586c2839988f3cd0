import type { Path, ValueReader } from "@muster/documents";

/** Returns the value as JSON text. For a value that JSON cannot express it reports a problem and returns undefined. */
export function readJson(reader: ValueReader, path: Path, value: unknown): string | undefined {
  const odd = findNonJson(value, path);
  if (odd === undefined) return JSON.stringify(value);
  reader.report(odd, "cannot be expressed in JSON; write it as a string");
  return undefined;
}

/** Returns the path of a value that JSON cannot express: .nan, .inf, whole numbers that lose digits. */
export function findNonJson(value: unknown, path: Path): Path | undefined {
  if (typeof value === "number") {
    const exact = Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
    return exact ? undefined : path;
  }
  if (typeof value === "bigint" || value === undefined) return path;
  if (typeof value !== "object" || value === null) return undefined;
  const entries: (readonly [string | number, unknown])[] = Array.isArray(value)
    ? value.map((item: unknown, index) => [index, item] as const)
    : Object.entries(value);
  for (const [key, item] of entries) {
    const found = findNonJson(item, [...path, key]);
    if (found !== undefined) return found;
  }
  return undefined;
}
