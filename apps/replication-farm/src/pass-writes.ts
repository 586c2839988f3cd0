import { inChange, inTrace } from "./change-trace.ts";
import type { Stored } from "./adapters/records.ts";
import { buildAudits } from "./domain/audit.ts";
import type { AuditRecord, ReplicaSet } from "./domain/replica-set.ts";
import type { Roll } from "./domain/roll.ts";
import type { Audit, SetChange } from "./domain/set-plan.ts";
import type { Owned, PassDeps } from "./pass-deps.ts";

/** Writes a change in the trace of what was asked for. One that nobody asked for, as when a node was lost, begins a trace, to which belongs all that follows from it. */
export function commit(
  deps: PassDeps,
  owned: Owned,
  set: Stored<ReplicaSet>,
  { next, because, audits }: SetChange,
  roll: Roll | undefined,
): Promise<Stored<ReplicaSet> | undefined> {
  const asked = roll?.traceparent ?? set.record.traceparent;
  const isAsked = because !== "node-ineligible" && asked !== owned.doneUnder;
  const under = isAsked ? asked : "";
  return inChange({ doing: "change replica set", set: owned.name, because, under }, (traceparent) => {
    const records = auditsOf(deps, owned.name, audits, traceparent);
    return write(deps, owned, set, { ...next, traceparent: under || traceparent }, records);
  });
}

/** Undefined: the set is not ours any more. */
export async function write(
  deps: PassDeps,
  { name, fence, isHeld }: Owned,
  { revision }: Stored<ReplicaSet>,
  next: ReplicaSet,
  audits: readonly AuditRecord[] = [],
): Promise<Stored<ReplicaSet> | undefined> {
  if (!isHeld()) return undefined;
  return deps.sets.own({ key: name, revision, next, audits }, fence);
}

/** The records of what is audited of a set, each of which has an id from then on. */
export function auditsOf(deps: PassDeps, set: string, audits: readonly Audit[], traceparent: string): AuditRecord[] {
  return buildAudits(set, audits, { nowMs: deps.now(), traceparent, newId: deps.newId });
}

/**
 * Puts what the outbox has on its stream. True: that is done, and the next write is to empty the outbox; until then it is done again, and the stream drops what it has. A stream that is away holds up
 * nothing until the outbox is full.
 */
export async function publish(
  deps: PassDeps,
  owned: Owned,
  { outbox, traceparent }: { readonly outbox: readonly AuditRecord[]; readonly traceparent: string },
): Promise<boolean> {
  if (outbox.length === 0 || !owned.isHeld()) return false;
  try {
    await inTrace(traceparent, () => deps.auditLog.publish(outbox));
    return true;
  } catch (error) {
    deps.tell.failed(owned.name, "publish-audits", error);
    return false;
  }
}
