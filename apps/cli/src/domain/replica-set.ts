import type { ReplicaSet } from "../adapters/farm-messages.ts";

/** The noun for a set in every text, and the prefix in `replica-set/NAME`. */
export const SET_NOUN = "replica-set";

/** The phase of a set whose record the farms cannot read. */
export const UNREADABLE = "UNREADABLE";

/** Returns the state of a set as one word. */
export function getSetPhase(set: ReplicaSet): string {
  if (set.deletion !== undefined) return "DELETING";
  if (set.roll !== "") return "ROLLING";
  if (set.disabled) return "DISABLED";
  if (set.transfer !== undefined) return "TRANSFERRING";
  if (set.trouble !== undefined) return "TROUBLED";
  return isSettled(set) ? "READY" : "CHANGING";
}

/** Returns whether all desired replicas are healthy, and no change is in progress. */
export function isSettled(set: ReplicaSet): boolean {
  return set.healthy >= set.desired && set.replicas.length === set.desired && set.transfer === undefined;
}
