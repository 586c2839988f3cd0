import { decideMinimum } from "./decide-minimum.ts";
import type { Roll } from "./roll.ts";

export type UndoVerdict =
  { readonly is: "undone"; readonly next: Roll } | { readonly is: "refused"; readonly because: string };

/** Old and new change places, and the one that was the old set gets as many replicas as there were at the beginning. */
export function decideUndo(roll: Roll): UndoVerdict {
  const { oldSet, newSet, oldDesired, newDesired, target, undoTarget, minimum, leaveOld } = roll;
  const next: Roll = {
    ...roll,
    phase: "RUNNING",
    oldSet: newSet,
    newSet: oldSet,
    oldDesired: newDesired,
    newDesired: oldDesired,
    target: undoTarget,
    // The canary alone would be less than what both sets have.
    undoTarget: leaveOld ? Math.max(target, undoTarget) : target,
    // There may have been fewer at the beginning.
    minimum: Math.min(minimum, undoTarget),
    leaveOld: false,
    // Who takes it back does not wait to see how it goes on.
    lastStepAtMs: 0,
    undone: roll.undone + 1,
  };
  // Counts have moved since the minimum was looked at.
  const never = next.newDesired < next.target ? decideMinimum(next, oldDesired + newDesired) : undefined;
  return never === undefined ? { is: "undone", next } : { is: "refused", because: never };
}
