/** An object of a manifest, before validation. */
export type PlainObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is PlainObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the objects of a list; empty if the value is no list. */
export function toObjects(value: unknown): readonly PlainObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Returns a text; empty for a value of any other type. */
export function toText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Quantities as texts; a manifest may have numbers. */
export function toQuantities(quantities: unknown): Readonly<Record<string, string>> {
  if (!isObject(quantities)) return {};
  return Object.fromEntries(Object.entries(quantities).map(([name, value]) => [name, toQuantity(value)]));
}

export function toQuantity(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
