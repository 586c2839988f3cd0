/** Both sets of a rolling update as they are now. */
export type RollCounts = {
  readonly newHealthy: number;
  readonly oldDesired: number;
  readonly newDesired: number;
  /** Of the new set, in the end. */
  readonly target: number;
  readonly minimum: number;
};

export type RollStep = { readonly add: number; readonly remove: number };

/**
 * How many replicas the new set may get now, and how many the old one gives up for them, so that `minimum` can stay healthy whatever becomes of the new ones, and both
 * sets together never have more than the larger of the target and what they have. `remove` is at most `oldDesired`.
 *
 * How many of the old ones are healthy does not matter, because those that are not go first (`planSet`): as long as the old set keeps what the minimum needs beside the healthy new ones, a step takes a
 * healthy one only where more than the minimum are, and from a set of which none is healthy it takes what holds the nodes.
 */
export function computeRollStep(counts: RollCounts): RollStep {
  const { oldDesired, newDesired, target } = counts;
  const remaining = Math.max(0, target - newDesired);
  // For these nothing has to go, so that an update that begins below its minimum gets there.
  const increase = Math.max(0, target - oldDesired - newDesired);
  const add = Math.min(remaining, increase + computeRemainder(counts));
  return { add, remove: Math.max(0, add - increase) };
}

/** How many replicas the old set can give up now; of one that was the larger one also once the new set has its own. */
export function computeRemainder({
  newHealthy,
  oldDesired,
  minimum,
}: Pick<RollCounts, "newHealthy" | "oldDesired" | "minimum">): number {
  return Math.min(oldDesired, Math.max(0, oldDesired + newHealthy - minimum));
}
