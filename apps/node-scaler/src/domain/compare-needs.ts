import type { Amounts } from "@muster/resources";
import { compareNames } from "./fit.ts";

/** The order in which the ledger grants the shared needs of one reservation: the largest first, by cpu, then by memory; equal ones together, by name. */
export function compareNeeds(one: SharedNeed, other: SharedNeed): number {
  return (
    amount(other, "cpu") - amount(one, "cpu") ||
    amount(other, "memory") - amount(one, "memory") ||
    compareNames(amountsKey(one.requests), amountsKey(other.requests)) ||
    compareNames(one.name, other.name)
  );
}

type SharedNeed = { readonly name: string; readonly requests: Amounts };

const keys = new WeakMap<Amounts, string>();

/** Equal for equal amounts. The ledger orders by it what has as much cpu and memory. */
export function amountsKey(amounts: Amounts): string {
  const known = keys.get(amounts);
  if (known !== undefined) return known;
  const entries = [...amounts].filter(([, amount]) => amount > 0).sort(([one], [other]) => compareNames(one, other));
  const key = `{${entries.map(([resource, amount]) => `${resource}=${amount}`).join(",")}}`;
  keys.set(amounts, key);
  return key;
}

function amount({ requests }: SharedNeed, resource: string): number {
  return requests.get(resource) ?? 0;
}
