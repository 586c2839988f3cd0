import type { Amounts } from "./amounts.ts";

/** The facts that decide how much of a node can be granted. Amounts count pods, too. */
export type NodeLoad = {
  /** The allocatable amounts; a resource that it does not name is missing on the node. */
  readonly allocatable: Amounts;
  /** The use of DaemonSet, mirror and system pods. */
  readonly overhead: Amounts;
  /** The grants on the node, and the use of foreign pods. */
  readonly uses: Iterable<Amounts>;
};

/** The resources whose use decides which node is the most allocated one. */
const SCORED = ["cpu", "memory"];

/** The use of this many pods that request these amounts together. */
export function sumUse(requests: Amounts, pods = 1): Amounts {
  return new Map(requests).set("pods", (requests.get("pods") ?? 0) + pods);
}

/** Subtracts amounts, never below 0. Omits resources that only `less` names. */
export function subtractAmounts(amounts: Amounts, less: Amounts): Amounts {
  const left = new Map<string, number>();
  for (const [resource, amount] of amounts) left.set(resource, Math.max(0, amount - (less.get(resource) ?? 0)));
  return left;
}

/** The part of a node that can be granted in parts. */
export function computeFreeAmounts({ allocatable, overhead, uses }: NodeLoad): Amounts {
  let free = subtractAmounts(allocatable, overhead);
  for (const use of uses) free = subtractAmounts(free, use);
  return free;
}

/**
 * Whether one pod with these requests fits into the free amounts. It also needs one free pod, so `sumUse(requests)` is its use of `free`. A resource
 * that `free` does not name counts as 0, and a request of 0 always fits.
 */
export function canFit(requests: Amounts, free: Amounts): boolean {
  if ((free.get("pods") ?? 0) < 1 + (requests.get("pods") ?? 0)) return false;
  for (const [resource, amount] of requests) if (amount > (free.get(resource) ?? 0)) return false;
  return true;
}

/**
 * The mean of the fractions of cpu and memory in use, from 0 to 1: the score MostAllocated of kube-scheduler. Shared needs go to the node with the highest
 * score, ties by name, so that whole machines stay free. A resource that the node lacks is left out of the mean.
 */
export function computeAllocatedFraction(free: Amounts, allocatable: Amounts): number {
  let sum = 0;
  let count = 0;
  for (const resource of SCORED) {
    const total = allocatable.get(resource) ?? 0;
    if (total <= 0) continue;
    sum += Math.min(1, Math.max(0, 1 - (free.get(resource) ?? 0) / total));
    count += 1;
  }
  return count === 0 ? 0 : sum / count;
}
