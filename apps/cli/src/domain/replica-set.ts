import type { Reason } from "@muster/ledger-client/explanation";
import type { SetSpec } from "./set-document.ts";

/** How every text names one, and what stands before the slash in `replica-set/NAME`. */
export const SET_NOUN = "replica-set";

export type Replica = {
  readonly node: string;
  readonly pod: string;
  /** READY, NOT_READY, FAILED, SUCCEEDED or UNKNOWN. */
  readonly health: string;
  readonly reason: string;
  readonly message: string;
  /** Its node is still eligible. */
  readonly eligible: boolean;
};

export type NodeTransfer = {
  readonly oldNode: string;
  /** Empty: no node is found yet. */
  readonly newNode: string;
  readonly because: string;
  readonly startedAtMs: number;
  readonly givenUpAtMs: number;
};

export type Trouble = { readonly code: string; readonly message: string; readonly sinceMs: number };

/** A set as its farm reports it. */
export type ReplicaSet = {
  readonly name: string;
  readonly uid: string;
  readonly revision: number;
  readonly generation: number;
  readonly spec: SetSpec;
  /** The desired number: its own, or that of its rolling update. */
  readonly desired: number;
  readonly healthy: number;
  readonly eligibleNodes: number;
  /** In the order of the nodes' names. */
  readonly replicas: readonly Replica[];
  /** Its owner; empty: no farm owns it now. */
  readonly farm: string;
  readonly disabled: boolean;
  readonly transfer: NodeTransfer | undefined;
  readonly held: { readonly by: string; readonly because: string; readonly atMs: number } | undefined;
  /** Failed transfers since the last success. */
  readonly transferFailures: number;
  /** Earliest start of the next transfer after a failure. */
  readonly transferNotBeforeAtMs: number | undefined;
  /** Id of its rolling update; empty: none. */
  readonly roll: string;
  readonly deletion: { readonly keepPods: boolean; readonly atMs: number } | undefined;
  readonly trouble: Trouble | undefined;
  readonly createdAtMs: number;
};

/** A set whose record the farms cannot read. */
export type UnreadableSet = { readonly name: string; readonly because: string };

/** A rolling update as its farm reports it. */
export type Roll = {
  readonly id: string;
  readonly revision: number;
  readonly oldSet: string;
  readonly newSet: string;
  /** CREATING, RUNNING, PAUSED or FINISHING. */
  readonly phase: string;
  readonly target: number;
  readonly minimum: number;
  readonly leaveOld: boolean;
  readonly delayMs: number;
  readonly oldDesired: number;
  readonly newDesired: number;
  readonly oldCurrent: number;
  readonly newCurrent: number;
  readonly oldHealthy: number;
  readonly newHealthy: number;
  /** How often old and new have changed places. */
  readonly undone: number;
  readonly waitingBecause: string;
  readonly trouble: Trouble | undefined;
  readonly createdAtMs: number;
};

export type NodeVerdict = { readonly node: string; readonly code: string; readonly message: string };

/** A set as its farm explains it, with what each node is to it. */
export type ExplainedSet = {
  readonly set: ReplicaSet;
  readonly phase: string;
  /** Why it is in its phase. */
  readonly reason: Reason;
  readonly roll: Roll | undefined;
  readonly nodesKnown: boolean;
  readonly nodes: readonly NodeVerdict[];
  readonly nodesMore: number;
};

export type SetAudit = {
  readonly id: string;
  readonly event: string;
  readonly atMs: number;
  readonly details: Readonly<Record<string, unknown>>;
  readonly traceparent: string;
};

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
