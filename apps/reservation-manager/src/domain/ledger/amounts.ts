import type { Amounts } from "@muster/resources";
import { compareNumbers, compareText } from "./sorted-map.ts";

const keys = new WeakMap<Amounts, string>();

/** Equal for equal amounts, whatever the order of their resources; an amount of 0 is as none. */
export function amountsKey(amounts: Amounts): string {
  const known = keys.get(amounts);
  if (known !== undefined) return known;
  const entries = [...amounts].filter(([, amount]) => amount > 0).sort(([a], [b]) => compareText(a, b));
  const key = `{${entries.map(([resource, amount]) => `${resource}=${amount}`).join(",")}}`;
  keys.set(amounts, key);
  return key;
}

/** More cpu first, then more memory; a total order of amounts that differ. */
export function compareLargestFirst(a: Amounts, b: Amounts): number {
  return (
    compareNumbers(b.get("cpu") ?? 0, a.get("cpu") ?? 0) ||
    compareNumbers(b.get("memory") ?? 0, a.get("memory") ?? 0) ||
    compareText(amountsKey(a), amountsKey(b))
  );
}
