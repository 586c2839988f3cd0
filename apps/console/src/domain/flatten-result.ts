/** Maximum values that a page shows; the document contains all values. */
const MAX_VALUES = 100;

export type ResultValue = { readonly name: string; readonly value: string };

/** Flattens the result of a session: one row per value, named by its path, for example `latencyMs.p99`. A text that is not JSON is one value. */
export function flattenResult(json: string): readonly ResultValue[] {
  const values = flatten("", parse(json));
  if (values.length <= MAX_VALUES) return values;
  return [...values.slice(0, MAX_VALUES), { name: "…", value: `${values.length - MAX_VALUES} more` }];
}

function flatten(name: string, value: unknown): readonly ResultValue[] {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return [{ name, value: typeof value === "string" ? value : JSON.stringify(value) }];
  return Object.entries(value).flatMap(([key, each]) => flatten(name === "" ? key : `${name}.${key}`, each));
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}
