import { findFault } from "@muster/faults";
import type { StoredRecord } from "./adapters/records.ts";
import { buildAudits } from "./domain/audit.ts";
import { buildRequest } from "./domain/plan-pass.ts";
import type { AuditRecord, ReplicaSet } from "./domain/replica-set.ts";
import type { SetAudit, SetChange } from "./domain/set-plan.ts";
import type { SeenSet } from "./observe-set.ts";
import type { SetOwnership, PassDeps } from "./pass-deps.ts";
import { runInStepSpan, runInTrace } from "./pass-trace.ts";

/** Writes a change, which keeps the trace of its request. Undefined: this farm no longer owns the set. */
export function commitSet(
  deps: PassDeps,
  seen: SeenSet,
  set: StoredRecord<ReplicaSet>,
  { next, because, audits }: SetChange,
): Promise<StoredRecord<ReplicaSet> | undefined> {
  const { owned } = seen;
  return runInStepSpan({ name: "change replica set", set: owned.name, because }, (traceparent) => {
    const records = buildAuditRecords(deps, owned.name, audits, traceparent);
    return writeSet(deps, owned, set, { ...next, traceparent: buildRequest(seen, because) || traceparent }, records);
  });
}

/** Writes the set with this farm's fence. Undefined: this farm no longer owns the set. */
export async function writeSet(
  deps: PassDeps,
  { name, fence, isHeld }: SetOwnership,
  { revision }: StoredRecord<ReplicaSet>,
  next: ReplicaSet,
  audits: readonly AuditRecord[] = [],
): Promise<StoredRecord<ReplicaSet> | undefined> {
  if (!isHeld()) return undefined;
  return deps.sets.own({ key: name, revision, next, audits }, fence);
}

/** Audit records with ids. */
export function buildAuditRecords(
  deps: PassDeps,
  set: string,
  audits: readonly SetAudit[],
  traceparent: string,
): AuditRecord[] {
  return buildAudits(set, audits, { nowMs: deps.now(), traceparent, newId: deps.newId });
}

/**
 * Publishes the outbox. True: the outbox is published, and the next write empties it. Until then it is published again, and the stream drops duplicates. An
 * unavailable stream delays no write until the outbox is full. Rethrows a defect.
 */
export async function publishOutbox(
  deps: PassDeps,
  owned: SetOwnership,
  { outbox, traceparent }: { readonly outbox: readonly AuditRecord[]; readonly traceparent: string },
): Promise<boolean> {
  if (outbox.length === 0 || !owned.isHeld()) return false;
  try {
    await runInTrace(traceparent, () => deps.auditLog.publish(outbox));
    return true;
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    deps.report.failed(owned.name, "publish-audits", error);
    return false;
  }
}
