import type { ReplicaSet } from "../adapters/farm-messages.ts";

/** How every text names one, and what stands before the slash in `replica-set/NAME`. */
export const SET_NOUN = "replica-set";

/** The phase of a set whose record the farms cannot read. */
export const UNREADABLE = "UNREADABLE";

/** The state of a set in one word. */
export function phaseOfSet(set: ReplicaSet): string {
  if (set.deletion !== undefined) return "DELETING";
  if (set.roll !== "") return "ROLLING";
  if (set.disabled) return "DISABLED";
  if (set.transfer !== undefined) return "TRANSFERRING";
  if (set.trouble !== undefined) return "TROUBLED";
  return isSettled(set) ? "READY" : "CHANGING";
}

/** All desired replicas are healthy, and no change is under way. */
export function isSettled(set: ReplicaSet): boolean {
  return set.healthy >= set.desired && set.replicas.length === set.desired && set.transfer === undefined;
}
