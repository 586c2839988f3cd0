import type { EndRequest, Order, Renewal, Result } from "@muster/leases";

/** Counted exits, in a window that begins with the first of them. */
export type CrashWindow = {
  readonly sinceNs: bigint;
  readonly exits: number;
  /** The exits already counted, by pod; the most recently seen pod is last. */
  readonly pods: readonly { readonly pod: string; readonly exits: number; readonly lastNs: bigint }[];
};

/**
 * ORDERED -> PROVISIONING -> ACTIVE -> DECOMMISSIONING -> ENDED, or FAILED if provisioning fails. In PROVISIONING and DECOMMISSIONING resources of the lease
 * may exist; in ORDERED, ENDED and FAILED none do. ENDED never runs again; FAILED runs again when its order is sent again.
 */
export type LeasePhase = "ORDERED" | "PROVISIONING" | "ACTIVE" | "DECOMMISSIONING" | "ENDED" | "FAILED";

/**
 * Why a lease ends, and the function that sets it.
 * - EXPIRED, its time is over: `expire` (`plan-lease.ts`)
 * - REQUESTED, by its user: `decideEnd` (`decide-request.ts`)
 * - WITHDRAWN, by the source of its order: `decideWithdrawal` (`decide-request.ts`)
 * - CRASHED, its containers exit too often: `planActive` (`plan-lease.ts`) decides, `execute` (`lead/pass.ts`) sets
 * - PROVISION_FAILED: `transitionFailed` (`transition-lease.ts`)
 * - MIGRATED, another lease has its workload: `transitionMigrated` (`transition-lease.ts`)
 */
export type EndingCause = (typeof ENDING_CAUSES)[number];

export const ENDING_CAUSES = ["EXPIRED", "REQUESTED", "WITHDRAWN", "CRASHED", "PROVISION_FAILED", "MIGRATED"] as const;

export type LeaseEnding = {
  readonly cause: EndingCause;
  readonly message: string;
  readonly atNs: bigint;
  /** Set only with REQUESTED. */
  readonly request: EndRequest | undefined;
};

/** Feedback that the source of the order has not received yet. */
export type FeedbackPending = {
  readonly result: boolean;
  readonly deleted: boolean;
  /** Increases with each new feedback: an acknowledgement counts only for its own number. */
  readonly number: number;
  /** Failed attempts, without refusals. */
  readonly attempts: number;
  /** Number of refusals by the source. */
  readonly refusals: number;
  /** Number of repetitions that a repeated order has caused. */
  readonly repeats: number;
  readonly notBeforeNs: bigint;
};

/**
 * - DELAYED: the first failed attempt of a phase (later ones update only the trouble of the record), or a machine lost before the lease became active
 * - STUCK: the lease cannot be removed for a long time
 * - ANSWER_REFUSED: the source refuses the feedback
 * - TROUBLED: resources of an active lease are missing or broken
 * - RESTORED: they are restored, or the result has changed
 * - MIGRATED: the workload passes to another lease, or comes from one
 */
export type LeaseEventType =
  | "ORDERED"
  | "DELAYED"
  | "PROVISIONED"
  | "TROUBLED"
  | "RESTORED"
  | "RESENT"
  | "RENEWED"
  | "ENDING"
  | "STUCK"
  | "DECOMMISSIONED"
  | "FAILED"
  | "ANSWER_REFUSED"
  | "MIGRATED";

/** One event in the history of a lease, written in the same write as the change itself. */
export type LeaseEvent = {
  readonly id: string;
  readonly lease: string;
  /** A LeaseEventType, or one of another version: no decision depends on it. */
  readonly eventType: string;
  readonly message: string;
  readonly atNs: bigint;
  readonly traceparent: string;
};

/** A lease as stored: the source of truth. */
export type LeaseRecord = {
  readonly order: Order;
  /** Name of the source that receives the feedback. */
  readonly source: string;
  readonly phase: LeasePhase;
  /** Number of the current run, from 1. Objects carry this number, so that the late removal of an earlier run cannot remove objects of a later one. */
  readonly run: number;
  readonly result: Result | undefined;
  readonly expiresAtNs: bigint;
  /** The renewal in force. */
  readonly renewal: Renewal | undefined;
  readonly ending: LeaseEnding | undefined;
  /** Failed attempts of the present phase. */
  readonly attempts: number;
  readonly notBeforeNs: bigint;
  /** Text of the last failure. */
  readonly trouble: string;
  readonly feedback: FeedbackPending;
  /** Events that are not on the audit stream yet. */
  readonly outbox: readonly LeaseEvent[];
  /** Number of events so far, part of event ids. */
  readonly events: number;
  /** When the last resource was removed. */
  readonly endedAtNs: bigint | undefined;
  readonly fence: number;
  readonly requestId: string;
  readonly traceparent: string;
  /** Undefined: no container of the lease has exited. */
  readonly crashes: CrashWindow | undefined;
  /** The lease whose workload this one is about to take over. */
  readonly takesOver: string | undefined;
  /** Undefined: the objects were created for this lease itself. */
  readonly madeFor: LeaseOrigin | undefined;
  /** The lease that has taken over the workload. */
  readonly heir: string | undefined;
  /** Hash of the signed order. Undefined: the record is complete. Otherwise it is compacted: the data of the order and of a successful result are removed. */
  readonly orderHash: Uint8Array | undefined;
};

/** The lease, and its run, for which a workload was first created: its names and labels keep both after a take-over. */
export type LeaseOrigin = { readonly id: string; readonly run: number };

/** Identifies the objects of a lease by their names and labels. */
export function getOrigin({ order, run, madeFor }: Pick<LeaseRecord, "order" | "run" | "madeFor">): LeaseOrigin {
  return madeFor ?? { id: order.id, run };
}

/** Whether the lease is over and its end and history are reported and published, so that its data are no longer needed. */
export function isSettled({ phase, feedback, outbox }: Pick<LeaseRecord, "phase" | "feedback" | "outbox">): boolean {
  const isOver = phase === "ENDED" || phase === "FAILED";
  return isOver && !feedback.result && !feedback.deleted && outbox.length === 0;
}

/** Whether the lease is neither over nor ending. */
export function isOngoing({ phase }: Pick<LeaseRecord, "phase">): boolean {
  return phase === "ORDERED" || phase === "PROVISIONING" || phase === "ACTIVE";
}

/** Whether resources of the lease may exist. */
export function mayHoldResources(phase: LeasePhase): boolean {
  return phase === "PROVISIONING" || phase === "ACTIVE" || phase === "DECOMMISSIONING";
}

/** Names of the sources of orders, as stored in records. */
export const SOURCES = { service: "api", stream: "nats", controller: "http" } as const;

/** Whether a source repeats old orders: a controller lists all of its orders at each start, and keeps unaccepted ones for any time. */
export function isRelistingOrders(source: string): boolean {
  return source === SOURCES.controller;
}
