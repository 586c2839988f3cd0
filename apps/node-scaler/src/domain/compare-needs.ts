import type { Amounts } from "@muster/resources";
import { compareNames } from "./fit.ts";

/** The order in which the ledger grants the shared needs of one reservation: the largest first, by cpu, then by memory, then by name. */
export function compareNeeds(one: SharedNeed, other: SharedNeed): number {
  return (
    amount(other, "cpu") - amount(one, "cpu") ||
    amount(other, "memory") - amount(one, "memory") ||
    compareNames(one.name, other.name)
  );
}

type SharedNeed = { readonly name: string; readonly requests: Amounts };

function amount({ requests }: SharedNeed, resource: string): number {
  return requests.get(resource) ?? 0;
}
