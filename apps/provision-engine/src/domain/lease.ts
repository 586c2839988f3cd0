import type { EndRequest, Order, Renewal, Result } from "@muster/leases";
import type { CrashWindow } from "./count-exits.ts";

/**
 * ORDERED -> PROVISIONING -> ACTIVE -> DECOMMISSIONING -> ENDED, or FAILED where provisioning did not succeed. PROVISIONING and DECOMMISSIONING say that something of
 * the lease may be there; ORDERED, ENDED and FAILED that nothing is. ENDED never runs again, FAILED does when its order is sent again.
 */
export type Phase = "ORDERED" | "PROVISIONING" | "ACTIVE" | "DECOMMISSIONING" | "ENDED" | "FAILED";

/**
 * Why a lease ends, and the function that sets it.
 * - EXPIRED, its time is over: `expire` (`plan-lease.ts`)
 * - REQUESTED, by its user: `decideEnd` (`decide-wish.ts`)
 * - WITHDRAWN, by the source of its order: `decideWithdrawal` (`decide-wish.ts`)
 * - CRASHED, its containers exit too often: `planActive` (`plan-lease.ts`) decides, `execute` (`lead/pass.ts`) sets
 * - PROVISION_FAILED: `transitionFailed` (`transition-lease.ts`)
 * - MIGRATED, another lease has its workload: `transitionMigrated` (`transition-lease.ts`)
 */
export type EndingCause = "EXPIRED" | "REQUESTED" | "WITHDRAWN" | "CRASHED" | "PROVISION_FAILED" | "MIGRATED";

export type Ending = {
  readonly cause: EndingCause;
  readonly message: string;
  readonly atNs: bigint;
  /** With REQUESTED. */
  readonly request: EndRequest | undefined;
};

/** What has still to be told to the source of the order. */
export type FeedbackPending = {
  readonly result: boolean;
  readonly deleted: boolean;
  /** Raised by each thing to tell: what was sent counts only for the number that it was sent for. */
  readonly number: number;
  /** That failed, without those that were refused. */
  readonly attempts: number;
  /** How often its source has refused it. */
  readonly refusals: number;
  /** How often it was to be told once more because its order came again. */
  readonly repeats: number;
  readonly notBeforeNs: bigint;
};

/**
 * DELAYED: the first attempt of a phase that failed; those that follow are in the trouble of the record. Also a machine that was lost before the lease became active. STUCK: it cannot be taken down for long. ANSWER_REFUSED: by the
 * source that is told what the lease came to. TROUBLED: what is there of an active lease is not as it should be; RESTORED: it is again, what was missing was made again, or its result is another one. MIGRATED: its workload is
 * another lease's from here on, or it has that of another one.
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

/** One thing that happened to a lease, written together with what happened. */
export type LeaseEvent = {
  readonly id: string;
  readonly lease: string;
  /** A LeaseEventType, or what another version tells: nothing is decided by it. */
  readonly eventType: string;
  readonly message: string;
  readonly atNs: bigint;
  readonly traceparent: string;
};

/** A lease as it is stored: the truth. */
export type LeaseRecord = {
  readonly order: Order;
  /** Name of the source that is told what becomes of it. */
  readonly source: string;
  readonly phase: Phase;
  /** How often the order was begun, from 1. What is made for the lease carries it, so that what still undoes an earlier run cannot undo a later one. */
  readonly run: number;
  readonly result: Result | undefined;
  readonly expiresAtNs: bigint;
  /** The one that holds. */
  readonly renewal: Renewal | undefined;
  readonly ending: Ending | undefined;
  /** Attempts of the present phase that failed. */
  readonly attempts: number;
  readonly notBeforeNs: bigint;
  /** Text of the last of them. */
  readonly trouble: string;
  readonly feedback: FeedbackPending;
  /** What happened and is not yet on the audit stream. */
  readonly outbox: readonly LeaseEvent[];
  /** Things that happened so far; ids of events are made from it. */
  readonly events: number;
  /** Since nothing of it is there any more. */
  readonly endedAtNs: bigint | undefined;
  readonly fence: number;
  readonly requestId: string;
  readonly traceparent: string;
  /** Undefined: nothing of it has exited. */
  readonly crashes: CrashWindow | undefined;
  /** The lease whose workload it is to take over, and has not yet. */
  readonly takesOver: string | undefined;
  /** Undefined: what is there of it was made for itself. */
  readonly madeFor: Origin | undefined;
  /** The lease that has taken over its workload. */
  readonly heir: string | undefined;
  /** Of what its user signed. Undefined: the record has all; else it is over, that is told, and the data of its order and of a result that is no error are gone. */
  readonly orderHash: Uint8Array | undefined;
};

/** The lease that a workload was made for first, and which run of it: its names and labels say so, whichever lease has it. */
export type Origin = { readonly id: string; readonly run: number };

/** By which names and labels what is there of a lease is found. */
export function originOf({ order, run, madeFor }: Pick<LeaseRecord, "order" | "run" | "madeFor">): Origin {
  return madeFor ?? { id: order.id, run };
}

/** Nothing of it is there, and all that is to be told of it is: nobody asks for its data any more. */
export function isSettled({ phase, feedback, outbox }: Pick<LeaseRecord, "phase" | "feedback" | "outbox">): boolean {
  const isOver = phase === "ENDED" || phase === "FAILED";
  return isOver && !feedback.result && !feedback.deleted && outbox.length === 0;
}

/** Whether it is neither over nor on its way to its end. */
export function isOngoing({ phase }: Pick<LeaseRecord, "phase">): boolean {
  return phase === "ORDERED" || phase === "PROVISIONING" || phase === "ACTIVE";
}

/** Whether something of the lease is there, or may be. */
export function mayHoldResources(phase: Phase): boolean {
  return phase === "PROVISIONING" || phase === "ACTIVE" || phase === "DECOMMISSIONING";
}

/** Names of where orders come from, as records have them. */
export const SOURCES = { service: "api", stream: "nats", controller: "http" } as const;

/** Whether a source shows its orders again, long after they were made: a controller lists all that it has at each start, and queues what nobody has taken for as long as it likes. */
export function relistsOrders(source: string): boolean {
  return source === SOURCES.controller;
}
