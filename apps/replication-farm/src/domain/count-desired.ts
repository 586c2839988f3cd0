import type { ReplicaSet } from "./replica-set.ts";
import { countDesiredInRollout, type Rollout } from "./rollout.ts";

/** Returns whether a disabled set stays unchanged. A rolling update that began before the set was disabled still moves it. */
export function isFrozen({ name, disabled }: ReplicaSet, rollout: Rollout | undefined): boolean {
  return disabled && (rollout === undefined || countDesiredInRollout(rollout, name) === undefined);
}

/** Returns the current target of replicas: the number in its rolling update, the number of eligible nodes for a daemon set, or its own number. */
export function countDesired(set: ReplicaSet, rollout: Rollout | undefined, eligible: number | undefined): number {
  if (set.deletion !== undefined) return 0;
  const rolloutSet = rollout === undefined ? undefined : countDesiredInRollout(rollout, set.name);
  if (rolloutSet !== undefined) return rolloutSet;
  return set.spec.daemon ? (eligible ?? set.placements.length) : set.spec.replicasDesired;
}
