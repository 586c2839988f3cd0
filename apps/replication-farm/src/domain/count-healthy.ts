import { podNameOf, type ReplicaSet } from "./replica-set.ts";
import type { SetPod } from "./set-snapshot.ts";

/** Pods of the set's places that are ready and made from its template. */
export function countHealthy(set: ReplicaSet, pods: ReadonlyMap<string, SetPod>, templateHash: string): number {
  return set.placements.filter(({ ordinal, templateHash: hash }) => {
    const pod = pods.get(podNameOf(set.name, ordinal));
    return hash === templateHash && pod?.health === "READY" && !pod.deleting;
  }).length;
}
