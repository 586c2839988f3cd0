import type { JsonObject } from "./json.ts";

const texts = new WeakMap<JsonObject, Buffer>();

/** Returns the JSON of a stored object, serialised once per version: answers and watches share it. */
export function formatText(object: JsonObject): Buffer {
  const known = texts.get(object);
  if (known !== undefined) return known;
  const made = Buffer.from(JSON.stringify(object));
  texts.set(object, made);
  return made;
}
