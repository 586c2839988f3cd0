import { decideMinimum } from "./decide-minimum.ts";
import { computeMinimum, type Rollout } from "./rollout.ts";

type UndoVerdict =
  { readonly kind: "undone"; readonly next: Rollout } | { readonly kind: "refused"; readonly because: string };

/** Swaps old and new, and gives each its initial number of replicas; a canary stays. */
export function decideUndo(rollout: Rollout): UndoVerdict {
  const { oldSet, newSet, oldDesired, newDesired, target, undoTarget, newBefore, leaveOld } = rollout;
  const isGoingBack = rollout.undone % 2 === 0;
  const next: Rollout = {
    ...rollout,
    phase: "RUNNING",
    oldSet: newSet,
    newSet: oldSet,
    oldDesired: newDesired,
    newDesired: oldDesired,
    ...(isGoingBack
      ? {
          target: undoTarget - newBefore,
          // The canary's target alone would be less than both sets have.
          undoTarget: leaveOld ? Math.max(target, undoTarget) : target,
          leaveOld: newBefore > 0,
        }
      : { target: undoTarget, undoTarget: target + newBefore, leaveOld: false }),
    // An undo does not wait for the delay between steps.
    lastStepAtMs: 0,
    undone: rollout.undone + 1,
  };
  // Counts have changed since the last check of the minimum.
  const never =
    next.newDesired < next.target
      ? decideMinimum({ ...next, minimum: computeMinimum(next) }, oldDesired + newDesired)
      : undefined;
  return never === undefined ? { kind: "undone", next } : { kind: "refused", because: never };
}
