import type { AuditEvent, ReplicaSet } from "./replica-set.ts";

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
  | "machines-told"
  | "machines-surplus"
  | "trouble-changed";

/** The next record of a set, and what is audited with it. */
export type SetChange = {
  readonly next: ReplicaSet;
  readonly because: SetChangeReason;
  readonly audits: readonly Audit[];
};

export type Audit = { readonly eventType: AuditEvent; readonly details: Readonly<Record<string, unknown>> };

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

/** At most one change: what it leads to is planned on what was written. */
export type SetPlan = { readonly change: SetChange | undefined; readonly waits: readonly SetWait[] };

/** Nothing to do now, and why. */
export function waitFor(...waits: readonly SetWait[]): SetPlan {
  return { change: undefined, waits };
}
