import { isLeaseOver } from "./lease.ts";
import type { Lease } from "../adapters/lease-messages.ts";

/** Limits the finished leases in a list of all. */
export const MAX_SHOWN_OVER = 10;

/** Returns leases that are not over, then those that are, each sorted from new to old. `left` counts the finished leases beyond `maxOver`. */
export function arrangeLeases(
  leases: readonly Lease[],
  maxOver: number,
): { readonly shown: readonly Lease[]; readonly left: number } {
  const newestFirst = leases.toSorted((a, b) => (a.order.createdNs < b.order.createdNs ? 1 : -1));
  const over = newestFirst.filter(isLeaseOver);
  const live = newestFirst.filter((lease) => !isLeaseOver(lease));
  return { shown: [...live, ...over.slice(0, maxOver)], left: Math.max(0, over.length - maxOver) };
}
