/** The present counts of both sets of a rolling update. */
export type RolloutCounts = {
  readonly newHealthy: number;
  readonly oldDesired: number;
  readonly newDesired: number;
  /** The final number of the new set. */
  readonly target: number;
  readonly minimum: number;
};

type MovedReplicas = { readonly add: number; readonly remove: number };

/**
 * Computes how many replicas the new set may get now, and how many the old set releases for them. At least `minimum` stay healthy, whatever happens to the new
 * ones. Both sets together never exceed the larger of the target and their present number. `remove` is at most `oldDesired`.
 *
 * The number of healthy old replicas does not matter, because unhealthy ones are removed first (`planSet`). While the old set keeps the replicas that the
 * minimum needs beside the healthy new ones, a step removes a healthy replica only if more than the minimum are healthy. From a set without healthy replicas it
 * removes those that hold the nodes.
 */
export function computeRolloutStep(counts: RolloutCounts): MovedReplicas {
  const { oldDesired, newDesired, target } = counts;
  const remaining = Math.max(0, target - newDesired);
  // These additions need no removal, so an update that begins below its minimum can reach it.
  const increase = Math.max(0, target - oldDesired - newDesired);
  const add = Math.min(remaining, increase + computeRemainder(counts));
  return { add, remove: Math.max(0, add - increase) };
}

/** Returns how many replicas the old set can release now, also after the new set is complete if the old set was larger. */
export function computeRemainder({
  newHealthy,
  oldDesired,
  minimum,
}: Pick<RolloutCounts, "newHealthy" | "oldDesired" | "minimum">): number {
  return Math.min(oldDesired, Math.max(0, oldDesired + newHealthy - minimum));
}
