import { isLeaseOver, type Lease } from "./lease.ts";

/** Of those that are over, in a list that is of all. */
export const MAX_SHOWN_OVER = 10;

/** Leases in the order in which people look for them: what is not over, then what is, each the newest first. `left`: those beyond the first `overMax` that are over. */
export function arrangeLeases(
  leases: readonly Lease[],
  overMax: number,
): { readonly shown: readonly Lease[]; readonly left: number } {
  const newestFirst = leases.toSorted((a, b) => (a.order.createdNs < b.order.createdNs ? 1 : -1));
  const over = newestFirst.filter(isLeaseOver);
  const live = newestFirst.filter((lease) => !isLeaseOver(lease));
  return { shown: [...live, ...over.slice(0, overMax)], left: Math.max(0, over.length - overMax) };
}
