import type { ReplicaSet } from "./replica-set.ts";
import type { Roll } from "./roll.ts";

/** Why what is stored looks like the loss of everything; undefined: something is wanted. */
export function decideFailsafe(
  sets: readonly ReplicaSet[],
  rolls: readonly Roll[],
): "no-sets" | "no-replicas" | undefined {
  if (sets.length === 0) return "no-sets";
  const isWanted = sets.some(({ spec }) => spec.daemon || spec.replicasDesired > 0);
  const isRolled = rolls.some(({ oldDesired, newDesired, target }) => oldDesired + newDesired + target > 0);
  return isWanted || isRolled ? undefined : "no-replicas";
}
