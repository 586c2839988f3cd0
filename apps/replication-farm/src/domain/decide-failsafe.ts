import type { ReplicaSet } from "./replica-set.ts";
import type { Rollout } from "./rollout.ts";

/** Why the stored records look like the loss of all records; undefined: some replicas are desired. */
export function decideFailsafe(
  sets: readonly ReplicaSet[],
  rollouts: readonly Rollout[],
): "no-sets" | "no-replicas" | undefined {
  if (sets.length === 0) return "no-sets";
  const isWanted = sets.some(({ spec }) => spec.daemon || spec.replicasDesired > 0);
  const isRollingOut = rollouts.some(({ oldDesired, newDesired, target }) => oldDesired + newDesired + target > 0);
  return isWanted || isRollingOut ? undefined : "no-replicas";
}
