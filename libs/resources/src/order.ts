import type { Amounts } from "./amounts.ts";

const keys = new WeakMap<Amounts, string>();

/** Builds a key that is equal for equal amounts, in any order of their resources. An amount of 0 counts as missing. The amounts must not change afterwards. */
export function buildAmountsKey(amounts: Amounts): string {
  const known = keys.get(amounts);
  if (known !== undefined) return known;
  const entries = [...amounts].filter(([, amount]) => amount > 0).sort(([a], [b]) => (a < b ? -1 : 1));
  const key = `{${entries.map(([resource, amount]) => `${resource}=${amount}`).join(",")}}`;
  keys.set(amounts, key);
  return key;
}

/** The order in which parts of machines are placed: more cpu first, then more memory. A total order of amounts that differ. */
export function compareLargestFirst(a: Amounts, b: Amounts): number {
  const bySize = (b.get("cpu") ?? 0) - (a.get("cpu") ?? 0) || (b.get("memory") ?? 0) - (a.get("memory") ?? 0);
  if (bySize !== 0) return bySize;
  const [one, other] = [buildAmountsKey(a), buildAmountsKey(b)];
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
