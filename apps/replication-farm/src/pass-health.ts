import { findReplicaPod } from "./domain/places.ts";
import type { ReplicaSet } from "./domain/replica-set.ts";
import type { SetPod } from "./domain/set-snapshot.ts";
import type { SetOwnership } from "./pass-deps.ts";

/** Finds nodes on which the set's pods have been unready for `unhealthyMs`, as observed by this farm since it owns the set. */
export function findUnhealthy(
  { unreadySince }: Pick<SetOwnership, "unreadySince">,
  set: ReplicaSet,
  pods: ReadonlyMap<string, SetPod>,
  { nowMs, unhealthyMs }: { readonly nowMs: number; readonly unhealthyMs: number },
): string[] {
  const ordinals = new Set(set.placements.map(({ ordinal }) => ordinal));
  for (const ordinal of unreadySince.keys()) if (!ordinals.has(ordinal)) unreadySince.delete(ordinal);
  const { oldNode, newNode } = set.transfer ?? {};
  return set.placements.flatMap((placement) => {
    const { node, ordinal } = placement;
    // A transfer has its own time limit.
    if (node === oldNode || node === newNode) return [];
    if (findReplicaPod(set, pods, placement)?.health === "READY") {
      unreadySince.delete(ordinal);
      return [];
    }
    const sinceMs = unreadySince.get(ordinal) ?? nowMs;
    unreadySince.set(ordinal, sinceMs);
    return nowMs - sinceMs >= unhealthyMs ? [node] : [];
  });
}

/** Returns when the next pod will have been unready for too long; Infinity: all pods are ready, or already known to be unhealthy. */
export function nextUnhealthyAtMs(
  { unreadySince }: Pick<SetOwnership, "unreadySince">,
  { nowMs, unhealthyMs }: { readonly nowMs: number; readonly unhealthyMs: number },
): number {
  return Math.min(...[...unreadySince.values()].map((sinceMs) => sinceMs + unhealthyMs).filter((atMs) => atMs > nowMs));
}
