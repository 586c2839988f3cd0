import { compareLargestFirst, type Amounts } from "@muster/resources";
import { compareNames } from "./fit.ts";

/** Compares needs in the order in which the ledger grants the shared needs of one reservation: the largest first, equal ones by name. */
export function compareNeeds(one: SharedNeed, other: SharedNeed): number {
  return compareLargestFirst(one.requests, other.requests) || compareNames(one.name, other.name);
}

type SharedNeed = { readonly name: string; readonly requests: Amounts };
