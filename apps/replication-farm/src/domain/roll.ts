import type { AuditRecord, Trouble } from "./replica-set.ts";

/** CREATING: both sets are being marked. FINISHING: the new set has its replicas; the old one goes, or stays. */
export type RollPhase = "CREATING" | "RUNNING" | "PAUSED" | "FINISHING";

/**
 * A rolling update. As long as it is there, how many replicas both sets should have stands here and not in them, so that one write moves both: there is no moment at
 * which one has changed and the other has not.
 */
export type Roll = {
  /** Name that the new set had when the update was created; it keeps it when it is undone. */
  readonly id: string;
  readonly oldSet: string;
  readonly newSet: string;
  /** Of the new set; the update is finished once it has so many, healthy or not. */
  readonly target: number;
  /** `target` of an undo: replicas of both sets together when the update began. */
  readonly undoTarget: number;
  /** Replicas of the set that was the new one when the update began: more than none when it went on from a canary. */
  readonly newBefore: number;
  /** Healthy at all times, in both sets together, as it was asked for; see `minimumOf`. */
  readonly minimum: number;
  /** The old set stays with what it then has: a canary. */
  readonly leaveOld: boolean;
  /** Between two steps, once the new set has a replica. */
  readonly delayMs: number;
  readonly oldDesired: number;
  readonly newDesired: number;
  readonly phase: RollPhase;
  readonly lastStepAtMs: number;
  readonly createdAtMs: number;
  /** Fencing token of the farm that runs it. */
  readonly fence: number;
  /** Old and new have changed places so often. */
  readonly undone: number;
  readonly trouble: Trouble | undefined;
  readonly outbox: readonly AuditRecord[];
  readonly requestId: string;
  readonly traceparent: string;
  /** Who asked for it; empty: nobody who said so. */
  readonly by: string;
};

/** What has to stay healthy now: there may have been fewer at the beginning, to which an undo goes back. */
export function minimumOf({ minimum, target, newBefore, undone }: Roll): number {
  return undone % 2 === 1 ? Math.min(minimum, target + newBefore) : minimum;
}

/** How many replicas the set should have, as far as the update says: nothing before both sets are its own. */
export function desiredInRoll(roll: Roll, set: string): number | undefined {
  if (roll.phase === "CREATING") return undefined;
  if (set === roll.oldSet) return roll.oldDesired;
  return set === roll.newSet ? roll.newDesired : undefined;
}
