/** Both sets of a rolling update as they are now. */
export type RollCounts = {
  /** Healthy pods of the old set, at most as many as it should have: what was taken from it and is still there is on its way out. */
  readonly oldHealthy: number;
  readonly newHealthy: number;
  readonly oldDesired: number;
  readonly newDesired: number;
  /** Of the new set, in the end. */
  readonly target: number;
  readonly minimum: number;
};

export type RollStep = { readonly add: number; readonly remove: number };

/**
 * How many replicas the new set may get now, and how many the old one gives up for them, so that `minimum` stay healthy whatever becomes of the new ones, and both
 * sets together never have more than the larger of the target and what they have. `remove` is at most `oldDesired`.
 */
export function computeRollStep(counts: RollCounts): RollStep {
  const { newHealthy, oldDesired, newDesired, target, minimum } = counts;
  const oldHealthy = Math.min(counts.oldHealthy, oldDesired);
  const remaining = target - newDesired;
  if (remaining <= 0) return { add: 0, remove: 0 };
  // For these nothing has to go.
  const increase = Math.max(0, target - oldDesired - newDesired);
  const give = (add: number): RollStep => ({ add, remove: Math.max(0, add - increase) });
  if (newHealthy >= minimum) return give(remaining);
  // What takes nothing from the old set may always be added: an update that begins below its minimum gets there.
  const spare = Math.max(0, oldHealthy + newHealthy - minimum);
  return give(Math.min(remaining, increase + spare));
}

/** How many replicas an old set that was the larger one gives up once the new set has its own, so that `minimum` stay healthy. */
export function computeRemainder({ oldHealthy, newHealthy, oldDesired, minimum }: RollCounts): number {
  if (newHealthy >= minimum) return oldDesired;
  const spare = Math.min(oldHealthy, oldDesired) + newHealthy - minimum;
  return Math.min(oldDesired, Math.max(0, spare));
}
