import type { ReplicaSet } from "./replica-set.ts";
import { desiredInRoll, type Roll } from "./roll.ts";

/** Whether the set is left as it is because it is disabled; a rolling update that it was in by then moves it all the same. */
export function standsStill({ name, disabled }: ReplicaSet, roll: Roll | undefined): boolean {
  return disabled && (roll === undefined || desiredInRoll(roll, name) === undefined);
}

/** How many replicas a set should have now: what its rolling update says, or the eligible nodes of a daemon set, or its own number. */
export function desiredOf(set: ReplicaSet, roll: Roll | undefined, eligible: number | undefined): number {
  if (set.deletion !== undefined) return 0;
  const rolled = roll === undefined ? undefined : desiredInRoll(roll, set.name);
  if (rolled !== undefined) return rolled;
  return set.spec.daemon ? (eligible ?? set.placements.length) : set.spec.replicasDesired;
}
