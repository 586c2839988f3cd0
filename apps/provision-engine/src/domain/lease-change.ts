import type { Renewal, Result } from "@muster/leases";
import type { LeaseEnding, LeaseEventType, LeaseRecord, LeaseOrigin, CrashWindow } from "./lease.ts";

export type LeaseChange =
  /** The order was sent again, with its data; undefined: the source only requests the answer again. */
  | { readonly kind: "resent"; readonly data?: string }
  | { readonly kind: "renewed"; readonly renewal: Renewal }
  /** With CRASHED, `result` is the error that stays in the record. */
  | { readonly kind: "ending"; readonly ending: Omit<LeaseEnding, "atNs">; readonly result?: Result }
  /** With `takesOver`, no object is created. */
  | { readonly kind: "provisioning"; readonly takesOver?: string }
  /** The workload passes to the heir. */
  | { readonly kind: "migrated"; readonly heir: string }
  /** The workload of the lease in `takesOver` now belongs to this lease, with the exits counted so far. */
  | { readonly kind: "taken-over"; readonly madeFor: LeaseOrigin; readonly crashes: CrashWindow | undefined }
  | { readonly kind: "provisioned"; readonly result: Result }
  | { readonly kind: "provision-failed"; readonly result: Result }
  | { readonly kind: "decommissioned" }
  /** A container of the lease has exited, and restarts. */
  | { readonly kind: "exited"; readonly crashes: CrashWindow }
  /** An attempt of the present phase failed, and is retried. */
  | { readonly kind: "delayed"; readonly message: string; readonly notBeforeNs: bigint }
  /** The present phase waits, for example in a queue, without having failed. An empty message keeps the last one. */
  | { readonly kind: "waiting"; readonly message: string }
  /** A granted machine was lost before the lease became active. */
  | { readonly kind: "lost"; readonly message: string }
  /**
   * An active lease was checked. An empty trouble means healthy; `result` is set if it has changed; `recreated` lists missing objects that were created again.
   */
  | {
      readonly kind: "checked";
      readonly trouble: string;
      readonly result: Result | undefined;
      readonly recreated?: readonly string[];
    }
  /** The feedback of this number has arrived. */
  | { readonly kind: "feedback-sent"; readonly number: number; readonly resigned?: SignatureChange }
  | { readonly kind: "feedback-delayed"; readonly number: number; readonly notBeforeNs: bigint }
  /** The source refuses the feedback. `notBeforeNs` undefined: the feedback is abandoned. */
  | {
      readonly kind: "feedback-refused";
      readonly number: number;
      readonly message: string;
      readonly notBeforeNs: bigint | undefined;
    }
  /** The outbox up to and including this event is on the stream. */
  | { readonly kind: "published"; readonly upTo: string }
  /** The data of the lease are removed; the hash of its order stays. */
  | { readonly kind: "compacted"; readonly orderHash: Uint8Array };

/** The signature of a stored result, and the signature with which it was sent. */
export type SignatureChange = { readonly before: Uint8Array; readonly after: Uint8Array };

/**
 * Why a lease changes, and the functions that set it (`transition-lease.ts`, from feedback-sent on `transition-feedback.ts`):
 * - provisioning-begins, exit-counted, machine-lost, history-published: `transitionLease`; active: `transitionProvisioned`
 * - runs-again: `transitionResent`; renewed: `transitionRenewed`; ends, ends-for-good: `transitionEnding`; removed: `end`
 * - failed-and-removed, failed-before-creation: `transitionFailed`; retried-later: `transitionDelayed`; waits: `transitionWaiting`
 * - not-healthy, healthy-again: `transitionChecked`; data-removed: `transitionCompacted`
 * - workload-handed-over: `transitionMigrated`; workload-taken-over: `transitionTakenOver`
 * - feedback-sent, feedback-delayed, feedback-given-up, feedback-refused: `transitionFeedback`; answer-sent-again: `resendFeedback`
 */
type ChangeReason =
  | "provisioning-begins"
  | "exit-counted"
  | "machine-lost"
  | "history-published"
  | "active"
  | "runs-again"
  | "renewed"
  | "ends"
  | "ends-for-good"
  | "removed"
  | "failed-and-removed"
  | "failed-before-creation"
  | "retried-later"
  | "waits"
  | "not-healthy"
  | "healthy-again"
  | "data-removed"
  | "workload-handed-over"
  | "workload-taken-over"
  | "feedback-sent"
  | "feedback-delayed"
  | "feedback-given-up"
  | "feedback-refused"
  | "answer-sent-again";

/**
 * Why a change of a lease has no effect, and the functions that set it:
 * - other-phase: `NOT_IN_THIS_PHASE`; not-in-outbox: `transitionLease`; reported-later: `transitionResent`
 * - expired, renewal-applied, ends-later-already: `transitionRenewed`; not-settled, data-removed-already: `transitionCompacted`
 * - waits-for-the-same: `transitionWaiting`; same-health: `transitionChecked`
 * - feedback-superseded: `transitionFeedback`; answer-pending: `resendFeedback`
 */
type NoChangeReason =
  | "other-phase"
  | "not-in-outbox"
  | "reported-later"
  | "expired"
  | "renewal-applied"
  | "ends-later-already"
  | "not-settled"
  | "data-removed-already"
  | "waits-for-the-same"
  | "same-health"
  | "feedback-superseded"
  | "answer-pending";

export type LeaseTransition =
  | { readonly next: LeaseRecord; readonly because: ChangeReason }
  | { readonly next: undefined; readonly because: NoChangeReason };

export function changeLease(next: LeaseRecord, because: ChangeReason): LeaseTransition {
  return { next, because };
}

export function keepUnchanged(because: NoChangeReason): LeaseTransition {
  return { next: undefined, because };
}

/** The change does not fit the phase of the lease. */
export const NOT_IN_THIS_PHASE: LeaseTransition = { next: undefined, because: "other-phase" };

/** Events of a lease before its history is sampled. */
export const MAX_EVENTS = 480;
/** Once MAX_EVENTS is reached, one event of this many is recorded, except ends. */
const SAMPLED_EVERY = 50;
/** An order that repeatedly fails and is sent again has an unlimited number of ends. After this many runs, ends are sampled, too. */
const MAX_RECORDED_RUNS = 100;
const END_EVENTS: readonly LeaseEventType[] = ["ENDING", "STUCK", "DECOMMISSIONED", "FAILED", "MIGRATED"];

/** Adds an event to be published; a long history is sampled. */
export function withEvent(record: LeaseRecord, eventType: LeaseEventType, message: string, atNs: bigint): LeaseRecord {
  const { order, traceparent, run } = record;
  const events = record.events + 1;
  const isWhole = events <= MAX_EVENTS || (END_EVENTS.includes(eventType) && run <= MAX_RECORDED_RUNS);
  if (!isWhole && events % SAMPLED_EVERY !== 0) return { ...record, events };
  const text = isWhole ? message : [message, "one line of 50: the history is long"].filter(Boolean).join("; ");
  // An id can be reused once the record of its order is removed.
  const id = `${order.id}.${order.createdNs}.${events}`;
  const event = { id, lease: order.id, eventType, message: text, atNs, traceparent };
  return { ...record, events, outbox: [...record.outbox, event] };
}
