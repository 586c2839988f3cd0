import type { AuditRecord } from "./replica-set.ts";
import type { SetAudit } from "./set-plan.ts";

/** Audit records that wait to be published. A record whose outbox is full cannot change until the stream has accepted them. */
export const MAX_OUTBOX = 100;

type AuditContext = {
  readonly nowMs: number;
  /** The trace of the work that made the change; empty: none. */
  readonly traceparent: string;
  readonly newId: () => string;
};

/** The client in the details of an audit record; empty for an anonymous request. */
export function buildClientDetails(by: string): { readonly by?: string } {
  return by === "" ? {} : { by };
}

/** Gives each audit of a change an id, so that a repeated publication is recognised. */
export function buildAudits(replicaSet: string, audits: readonly SetAudit[], context: AuditContext): AuditRecord[] {
  const { nowMs: timestampMs, traceparent, newId } = context;
  return audits.map(({ eventType, details }) => ({
    id: newId(),
    eventType,
    details: JSON.stringify(details),
    timestampMs,
    replicaSet,
    traceparent,
  }));
}
