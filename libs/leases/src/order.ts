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
  /** Beyond 2^53; `MAX_DURATION_NS` never ends. */
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
