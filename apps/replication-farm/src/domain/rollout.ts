import type { AuditRecord, SetTrouble } from "./replica-set.ts";

/** CREATING: both sets are being marked. FINISHING: the new set has its replicas; the old one is deleted, or stays. */
type RolloutPhase = "CREATING" | "RUNNING" | "PAUSED" | "FINISHING";

/** A rolling update. While it exists, it holds the desired replicas of both sets, so that one write moves both and no reader observes a partial change. */
export type Rollout = {
  /** The name that the new set had when the update was created; it stays when the update is undone. */
  readonly id: string;
  readonly oldSet: string;
  readonly newSet: string;
  /** The replicas of the new set; the update is finished once it has this many, healthy or not. */
  readonly target: number;
  /** `target` of an undo: the replicas of both sets together when the update began. */
  readonly undoTarget: number;
  /** The initial replicas of the new set: more than 0 when the update continues a canary. */
  readonly newBefore: number;
  /** The requested minimum of healthy replicas in both sets together; see `minimumOf`. */
  readonly minimum: number;
  /** The old set keeps its remaining replicas: a canary. */
  readonly leaveOld: boolean;
  /** Pause between two steps, once the new set has a replica. */
  readonly delayMs: number;
  readonly oldDesired: number;
  readonly newDesired: number;
  readonly phase: RolloutPhase;
  readonly lastStepAtMs: number;
  readonly createdAtMs: number;
  /** Fencing token of the farm that runs the update. */
  readonly fence: number;
  /** Number of swaps of old and new. */
  readonly undone: number;
  readonly trouble: SetTrouble | undefined;
  readonly outbox: readonly AuditRecord[];
  readonly requestId: string;
  readonly traceparent: string;
  /** The client that requested the update; empty: anonymous. */
  readonly by: string;
};

/** Returns the minimum that applies now: an undo returns to the initial number, which may be lower. */
export function computeMinimum({ minimum, target, newBefore, undone }: Rollout): number {
  return undone % 2 === 1 ? Math.min(minimum, target + newBefore) : minimum;
}

/** Returns the replicas that the update demands of the set; undefined before both sets are marked. */
export function countDesiredInRollout(rollout: Rollout, set: string): number | undefined {
  if (rollout.phase === "CREATING") return undefined;
  if (set === rollout.oldSet) return rollout.oldDesired;
  return set === rollout.newSet ? rollout.newDesired : undefined;
}
