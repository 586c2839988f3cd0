import type { AuditRecord } from "./replica-set.ts";
import type { Audit } from "./set-plan.ts";

/** Audits that wait for their stream. A record whose outbox is full is not changed any more until the stream has taken them. */
export const OUTBOX_MAX = 100;

export type AuditContext = {
  readonly nowMs: number;
  /** Of the work that made the change; empty: none. */
  readonly traceparent: string;
  readonly newId: () => string;
};

/** As it stands in the details of what somebody asked for; nothing where nobody says who it is. */
export function byWhom(by: string): { readonly by?: string } {
  return by === "" ? {} : { by };
}

/** What is written beside a change of the set: each audit as a record of its own, which has an id from then on. */
export function buildAudits(replicaSet: string, audits: readonly Audit[], context: AuditContext): AuditRecord[] {
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
