import { decideMinimum } from "./decide-minimum.ts";
import { minimumOf, type Roll } from "./roll.ts";

export type UndoVerdict =
  { readonly kind: "undone"; readonly next: Roll } | { readonly kind: "refused"; readonly because: string };

/** Old and new change places, and each gets as many replicas as it had at the beginning; a canary stays. */
export function decideUndo(roll: Roll): UndoVerdict {
  const { oldSet, newSet, oldDesired, newDesired, target, undoTarget, newBefore, leaveOld } = roll;
  const isGoingBack = roll.undone % 2 === 0;
  const next: Roll = {
    ...roll,
    phase: "RUNNING",
    oldSet: newSet,
    newSet: oldSet,
    oldDesired: newDesired,
    newDesired: oldDesired,
    ...(isGoingBack
      ? {
          target: undoTarget - newBefore,
          // The canary alone would be less than what both sets have.
          undoTarget: leaveOld ? Math.max(target, undoTarget) : target,
          leaveOld: newBefore > 0,
        }
      : { target: undoTarget, undoTarget: target + newBefore, leaveOld: false }),
    // Who takes it back does not wait to see how it goes on.
    lastStepAtMs: 0,
    undone: roll.undone + 1,
  };
  // Counts have moved since the minimum was looked at.
  const never =
    next.newDesired < next.target
      ? decideMinimum({ ...next, minimum: minimumOf(next) }, oldDesired + newDesired)
      : undefined;
  return never === undefined ? { kind: "undone", next } : { kind: "refused", because: never };
}
