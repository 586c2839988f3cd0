import { isAvailable } from "./decide-available.ts";
import { findReplicaPod } from "./places.ts";
import type { ReplicaSet } from "./replica-set.ts";
import type { SetPod } from "./set-snapshot.ts";

/** Counts pods with a placement that are ready and built from the set's template. */
export function countHealthy(set: ReplicaSet, pods: ReadonlyMap<string, SetPod>, templateHash: string): number {
  return set.placements.filter((placement) => {
    const pod = findReplicaPod(set, pods, placement);
    return placement.templateHash === templateHash && pod?.health === "READY" && !pod.deleting;
  }).length;
}

/** Counts healthy pods that have been ready for `minReadySeconds`: a rolling update counts only these. */
export function countAvailable(
  set: ReplicaSet,
  pods: ReadonlyMap<string, SetPod>,
  { templateHash, nowMs }: { readonly templateHash: string; readonly nowMs: number },
): number {
  const available = [...pods].filter(([, pod]) => isAvailable(pod, set.spec, nowMs));
  return countHealthy(set, new Map(available), templateHash);
}
