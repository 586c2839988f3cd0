/** A signed order for one workload, as its user sent it. */
export type Order = {
  /** <number>-<number>, once for ever. */
  readonly id: string;
  /** Id of the engine that is to serve it. */
  readonly engine: string;
  /** The user's ed25519 public key in base58. */
  readonly user: string;
  readonly type: string;
  /** JSON, exactly as it was signed. */
  readonly data: string;
  readonly createdNs: bigint;
  /** Beyond 2^53; `DURATION_NS_MAX` never ends. */
  readonly durationNs: bigint;
  /** Id of an earlier lease that this one takes over from. */
  readonly reference: string | undefined;
  readonly version: number;
  readonly signature: Uint8Array;
  readonly signatureFormat: "muster-lease-v1" | "legacy";
};

/** A signed wish that a lease ends later. */
export type Renewal = {
  readonly id: string;
  readonly engine: string;
  readonly user: string;
  readonly expiresAtNs: bigint;
  /** From 1; one that is not above the lease's last is refused. */
  readonly sequence: number;
  readonly signature: Uint8Array;
};

/** A signed wish that a lease ends now. */
export type EndRequest = {
  readonly id: string;
  readonly engine: string;
  readonly user: string;
  readonly createdNs: bigint;
  readonly signature: Uint8Array;
};

/** On the wire 0 is an error, as in the original: a lease without a result has none, and not an empty one. */
export type ResultState = "error" | "ok" | "deleted";

/** What an order came to. */
export type Result = {
  readonly id: string;
  readonly type: string;
  readonly createdNs: bigint;
  readonly state: ResultState;
  /** Text of the error. */
  readonly message: string;
  /** JSON; `null` with an error. */
  readonly data: string;
  readonly signature: Uint8Array;
};

/**
 * ORDERED -> PROVISIONING -> ACTIVE -> DECOMMISSIONING -> ENDED, or FAILED where provisioning did not succeed. PROVISIONING and DECOMMISSIONING say that something of
 * the lease may be there; ORDERED, ENDED and FAILED that nothing is. ENDED never runs again, FAILED does when its order is sent again.
 */
export type Phase = "ORDERED" | "PROVISIONING" | "ACTIVE" | "DECOMMISSIONING" | "ENDED" | "FAILED";

/** WITHDRAWN: by the source that the order came from. */
export type EndingCause = "EXPIRED" | "REQUESTED" | "WITHDRAWN" | "CRASHED" | "PROVISION_FAILED";

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
  readonly attempts: number;
  readonly notBeforeNs: bigint;
};

export type LeaseEventType = "ORDERED" | "PROVISIONED" | "RESENT" | "RENEWED" | "ENDING" | "DECOMMISSIONED" | "FAILED";

/** One thing that happened to a lease, written together with what happened. */
export type LeaseEvent = {
  readonly id: string;
  readonly lease: string;
  readonly eventType: LeaseEventType;
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
};

/** Whether something of the lease is there, or may be. */
export function mayHold(phase: Phase): boolean {
  return phase === "PROVISIONING" || phase === "ACTIVE" || phase === "DECOMMISSIONING";
}
