import type { WaitVerdict, WaitGoal } from "./decide-wait.ts";
import { isSettled } from "./replica-set.ts";
import type { ReplicaSet, RolloutRecord } from "../adapters/farm-messages.ts";

/** Conditions of a set. Available: all desired replicas are ready. Ready: they are, and no change is in progress. */
export const SET_CONDITIONS = ["Ready", "Available", "Disabled", "Transferring", "Rolling", "Troubled"] as const;
/** Conditions of a rolling update. Complete: it has finished. */
export const ROLL_CONDITIONS = ["Complete", "Paused"] as const;

const OF_SET: Readonly<Record<(typeof SET_CONDITIONS)[number], (set: ReplicaSet) => boolean>> = {
  Ready: (set) => isSettled(set) && set.roll === "",
  Available: ({ healthy, desired }) => healthy >= desired,
  Disabled: ({ disabled }) => disabled,
  Transferring: ({ transfer }) => transfer !== undefined,
  Rolling: ({ roll }) => roll !== "",
  Troubled: ({ trouble }) => trouble !== undefined,
};

/** Decides whether a set meets the goal. It may still meet any goal unless it is being deleted. */
export function decideSetWait(set: ReplicaSet, goal: WaitGoal): WaitVerdict {
  if (goal.kind === "delete") return "open";
  const condition = SET_CONDITIONS.find((each) => each.toLowerCase() === goal.type.toLowerCase());
  if (condition !== undefined && OF_SET[condition](set) === goal.isTrue) return "met";
  return set.deletion === undefined ? "open" : "never";
}

/** Decides whether an open rolling update meets the goal. */
export function decideRollWait({ phase }: RolloutRecord, goal: WaitGoal): WaitVerdict {
  if (goal.kind === "delete") return "open";
  const isTrue = goal.type.toLowerCase() === "paused" && phase === "PAUSED";
  return isTrue === goal.isTrue ? "met" : "open";
}

/** The kubelet's reasons for a pod that cannot start without a change. */
const HOPELESS = /BackOff$|^ErrImage|^InvalidImageName$|^CreateContainer(Config)?Error$/;

/**
 * Decides whether the pods of a new set have been ready for the set's minimum time: a program that exits immediately is ready for a moment.
 * `settledForMs` is the time for which they have been ready. `never`: a pod has failed, or the farm reports trouble.
 */
export function decideRolled(set: ReplicaSet, settledForMs: number): WaitVerdict {
  if (isSettled(set)) {
    const isProven = set.desired === 0 || settledForMs >= 1000 * set.spec.minReadySeconds;
    return isProven ? "met" : "open";
  }
  const isHopeless = set.replicas.some(({ health, reason }) => health === "FAILED" || HOPELESS.test(reason));
  return isHopeless || set.trouble !== undefined || set.deletion !== undefined ? "never" : "open";
}

/**
 * Decides how a deleted rolling update ended. `start` is the first state read and `last` the last one; the set is the new set of that time, in its present
 * state. A set outside any update proves nothing, because an abandoned update releases its sets too.
 */
export function decideRollEnd(
  start: RolloutRecord,
  last: RolloutRecord,
  newSet: ReplicaSet | undefined,
): "complete" | "undone" {
  const isThere = newSet !== undefined && newSet.roll === "" && newSet.deletion === undefined;
  const isReached = isThere && (last.phase === "FINISHING" || newSet.desired >= last.target);
  return isReached && last.undone === start.undone ? "complete" : "undone";
}
