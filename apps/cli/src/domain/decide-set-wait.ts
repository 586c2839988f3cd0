import type { WaitVerdict, Goal } from "./decide-wait.ts";
import { isSettled } from "./replica-set.ts";
import type { ReplicaSet, Roll } from "../adapters/farm-messages.ts";

/** Conditions of a set. Available: all desired replicas are ready. Ready: and no change is under way. */
export const SET_CONDITIONS = ["Ready", "Available", "Disabled", "Transferring", "Rolling", "Troubled"] as const;
/** Conditions of a rolling update. Complete: it has reached its end. */
export const ROLL_CONDITIONS = ["Complete", "Paused"] as const;

const OF_SET: Readonly<Record<(typeof SET_CONDITIONS)[number], (set: ReplicaSet) => boolean>> = {
  Ready: (set) => isSettled(set) && set.roll === "",
  Available: ({ healthy, desired }) => healthy >= desired,
  Disabled: ({ disabled }) => disabled,
  Transferring: ({ transfer }) => transfer !== undefined,
  Rolling: ({ roll }) => roll !== "",
  Troubled: ({ trouble }) => trouble !== undefined,
};

/** Whether a set meets the goal. It may still meet any goal unless it is being deleted. */
export function decideSetWait(set: ReplicaSet, goal: Goal): WaitVerdict {
  if (goal.kind === "delete") return "open";
  const condition = SET_CONDITIONS.find((each) => each.toLowerCase() === goal.type.toLowerCase());
  if (condition !== undefined && OF_SET[condition](set) === goal.isTrue) return "met";
  return set.deletion === undefined ? "open" : "never";
}

/** Decides the same for an open rolling update. */
export function decideRollWait({ phase }: Roll, goal: Goal): WaitVerdict {
  if (goal.kind === "delete") return "open";
  const isTrue = goal.type.toLowerCase() === "paused" && phase === "PAUSED";
  return isTrue === goal.isTrue ? "met" : "open";
}

/** Reasons of the kubelet for pods that waiting does not start. */
const HOPELESS = /BackOff$|^ErrImage|^InvalidImageName$|^CreateContainer(Config)?Error$/;

/**
 * Whether the pods of a new set are ready, and have been for the time that the set asks: a program that exits immediately is ready for a moment, too.
 * `settledForMs`: for how long they have been seen so. `never`: one has failed, or the farm reports trouble.
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
 * How a rolling update that is deleted has ended. `start` is its first state that was read, `last` the last one; the set is its new set at that time, in its
 * present state. That the set is in no update proves nothing: an update that was given up releases its sets, too.
 */
export function decideRollEnd(start: Roll, last: Roll, newSet: ReplicaSet | undefined): "complete" | "undone" {
  const isThere = newSet !== undefined && newSet.roll === "" && newSet.deletion === undefined;
  const isReached = isThere && (last.phase === "FINISHING" || newSet.desired >= last.target);
  return isReached && last.undone === start.undone ? "complete" : "undone";
}
