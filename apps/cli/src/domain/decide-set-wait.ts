import type { WaitVerdict, Wish } from "./decide-wait.ts";
import { isSettled, type ReplicaSet, type Roll } from "./replica-set.ts";

/** What a set can be waited for. Available: as many as it should have are ready. Ready: and nothing is under way. */
export const SET_CONDITIONS = ["Ready", "Available", "Disabled", "Transferring", "Rolling", "Troubled"] as const;
/** What a rolling update can be waited for; Complete: it is over, and came to its end. */
export const ROLL_CONDITIONS = ["Complete", "Paused"] as const;

const OF_SET: Readonly<Record<(typeof SET_CONDITIONS)[number], (set: ReplicaSet) => boolean>> = {
  Ready: (set) => isSettled(set) && set.roll === "",
  Available: ({ healthy, desired }) => healthy >= desired,
  Disabled: ({ disabled }) => disabled,
  Transferring: ({ transfer }) => transfer !== undefined,
  Rolling: ({ roll }) => roll !== "",
  Troubled: ({ trouble }) => trouble !== undefined,
};

/** Whether a set is as it was wished. Whatever it is now, it may become anything, but when it is being deleted. */
export function decideSetWait(set: ReplicaSet, wish: Wish): WaitVerdict {
  if (wish.for === "delete") return "open";
  const condition = SET_CONDITIONS.find((each) => each.toLowerCase() === wish.type.toLowerCase());
  if (condition !== undefined && OF_SET[condition](set) === wish.is) return "met";
  return set.deletion === undefined ? "open" : "never";
}

/** The same of a rolling update that goes on. */
export function decideRollWait({ phase }: Roll, wish: Wish): WaitVerdict {
  if (wish.for === "delete") return "open";
  const isTrue = wish.type.toLowerCase() === "paused" && phase === "PAUSED";
  return isTrue === wish.is ? "met" : "open";
}

/** What the kubelet says of pods that do not come up by waiting. */
const HOPELESS = /BackOff$|^ErrImage|^InvalidImageName$|^CreateContainer(Config)?Error$/;

/**
 * Whether the pods of a set that was rolled to have become ready, and have been for as long as the set asks: a program that ends at once is ready for a moment, too. `settledForMs`: for how long they have been
 * seen so; never: one has failed, or the farm says that they are in trouble.
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
 * How a rolling update that is no longer there has ended. `start` is as it was when somebody began to look, `last` as it was last seen; the set is the one that it led to then, as it is now. That this
 * is free says nothing: one that was given up frees its sets, too, with what they have.
 */
export function decideRollEnd(start: Roll, last: Roll, newSet: ReplicaSet | undefined): "complete" | "undone" {
  const isThere = newSet !== undefined && newSet.roll === "" && newSet.deletion === undefined;
  const isReached = isThere && (last.phase === "FINISHING" || newSet.desired >= last.target);
  return isReached && last.undone === start.undone ? "complete" : "undone";
}
