/** A signed order for one workload, as its user sent it. */
export type Order = {
  /** <number>-<number>, never reused by the user. */
  readonly id: string;
  /** Id of the engine that serves it. */
  readonly engine: string;
  /** The user's ed25519 public key in base58. */
  readonly user: string;
  readonly type: string;
  /** The signed JSON text, byte for byte. */
  readonly data: string;
  readonly createdNs: bigint;
  /** May exceed 2^53; `MAX_DURATION_NS` never ends. */
  readonly durationNs: bigint;
  /** Id of an earlier lease whose workload this one takes over. */
  readonly reference: string | undefined;
  readonly version: number;
  readonly signature: Uint8Array;
  readonly signatureFormat: "muster-lease-v1" | "legacy";
};

/** A signed request for a later end. */
export type Renewal = {
  readonly id: string;
  readonly engine: string;
  readonly user: string;
  readonly expiresAtNs: bigint;
  /** Starts at 1; must exceed the sequence of the last renewal. */
  readonly sequence: number;
  readonly signature: Uint8Array;
};

/** A signed request to end a lease now. */
export type EndRequest = {
  readonly id: string;
  readonly engine: string;
  readonly user: string;
  readonly createdNs: bigint;
  readonly signature: Uint8Array;
};

/** State of a result. On the wire, 0 is an error, as in the original system; a lease without a result has none. */
export type ResultState = "error" | "ok" | "deleted";

/** The outcome of an order. */
export type Result = {
  readonly id: string;
  readonly type: string;
  readonly createdNs: bigint;
  readonly state: ResultState;
  /** Error text. */
  readonly message: string;
  /** JSON; `null` with an error. */
  readonly data: string;
  readonly signature: Uint8Array;
};
