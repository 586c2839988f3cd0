import type { AuditEvent, ReplicaSet } from "./replica-set.ts";

/**
 * Why the record of a set changes, and the functions that set it.
 * - too-few: `planAdd`; template-changed: `planTemplate`; trouble-changed: `withTrouble` (`plan-set.ts`)
 * - too-many, a replica leaves its node: `planRemove`, `planDaemon` (`plan-set.ts`)
 * - overlap, a replica leaves its node to an older set: `planYield` (`plan-set.ts`)
 * - deleted, every replica leaves its node: `planDeletion` (`plan-set.ts`)
 * - node-ineligible: `planStart` begins a transfer (`plan-transfer.ts`); in a rolling update `planLost` leaves the node (`plan-set.ts`)
 * - transfer-placed: `planProgress`; transfer-moot: `planObsoleteTransfer`, `planProgress` (`plan-transfer.ts`)
 * - transfer-done, the replica leaves the old node: `complete` (`plan-transfer.ts`), also when `transferNode` (`requests.ts`) began the transfer for a user
 * - transfer-failed, the replica leaves the new node: `rollBack` (`plan-transfer.ts`)
 * - pod-name-taken, a placement gets another ordinal: `planAnswers` (`plan-answers.ts`)
 * - machines-wanted, machines-surplus: `planSetMachines`; machines-granted: `recordGrants` (`plan-set-machines.ts`)
 */
export type SetChangeReason =
  | "too-few"
  | "too-many"
  | "overlap"
  | "deleted"
  | "template-changed"
  | "node-ineligible"
  | "transfer-placed"
  | "transfer-done"
  | "transfer-failed"
  | "transfer-moot"
  | "machines-wanted"
  | "machines-granted"
  | "machines-surplus"
  | "pod-name-taken"
  | "trouble-changed";

/** The next record of a set, and its audits. */
export type SetChange = {
  readonly next: ReplicaSet;
  readonly because: SetChangeReason;
  readonly audits: readonly SetAudit[];
};

export type SetAudit = { readonly eventType: AuditEvent; readonly details: Readonly<Record<string, unknown>> };

export type SetWait =
  | "nodes-unknown"
  | "failsafe"
  | "disabled"
  | "machines-gone"
  | "too-few-nodes"
  | "no-eligible-nodes"
  | "transfer-held"
  | "transfer-pause"
  | "transfer-allocating"
  | "transfer-starting"
  | "others-unhealthy"
  | "earlier-group-starting";

/** At most one change: the next plan starts from the written record. */
export type SetPlan = { readonly change: SetChange | undefined; readonly waits: readonly SetWait[] };

/** Returns a plan without a change, with the reasons. */
export function buildSetWait(...waits: readonly SetWait[]): SetPlan {
  return { change: undefined, waits };
}
