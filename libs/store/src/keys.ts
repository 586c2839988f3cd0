import { throwFault } from "@muster/faults";

/** Maximum size of a key in bytes, because keys are part of a subject. */
const MAX_KEY_LENGTH = 512;

const KEY = /^[-/=\w]+(\.[-/=\w]+)*$/;
const FILTER = /^([-/=\w]+|\*)(\.([-/=\w]+|\*))*(\.>)?$|^>$/;

/** Returns a valid key: tokens of letters, digits and `-_/=` joined by dots. Otherwise throws invalid_request. */
export function requireValidKey(key: string): string {
  if (key.length > MAX_KEY_LENGTH) return refuse("key", key, `is longer than ${MAX_KEY_LENGTH} bytes`);
  if (!KEY.test(key)) return refuse("key", key, "cannot be a key");
  return key;
}

/** Returns a valid filter: a key in which `*` stands for one token and a final `>` for one or more. */
export function requireValidFilter(filter: string): string {
  if (filter.length > MAX_KEY_LENGTH) return refuse("filter", filter, `is longer than ${MAX_KEY_LENGTH} bytes`);
  if (!FILTER.test(filter)) return refuse("filter", filter, "cannot be a filter of keys");
  return filter;
}

/** Order of all keys: by UTF-16 code units, the same on every machine. */
export function compareKeys(a: { readonly key: string }, b: { readonly key: string }): number {
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
}

function refuse(field: string, value: string, problem: string): never {
  return throwFault({ code: "invalid_request", field, reason: `"${value.slice(0, 64)}" ${problem}` });
}
