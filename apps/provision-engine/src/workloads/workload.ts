import type { LeaseRecord } from "../domain/lease.ts";

/** A lease that something is made for. */
export type AskedLease = LeaseRecord & {
  /** Told of each thing that was not there. */
  readonly made?: (what: string) => void;
  /** Told what is waited for as soon as that is known not to pass by itself in a moment; as often as it is seen. */
  readonly waits?: (because: string) => Promise<void>;
  /** Called with each thing that was lost before the lease became active, so that its history records why it took longer. */
  readonly lost?: (what: string) => Promise<void>;
};

/**
 * What makes one type of workload. Both are called again after whatever happened in between, by this process or another: what is there already is found and not made
 * twice, and what is not there any more is no error. They stop at the signal.
 */
export type Workload = {
  readonly type: string;
  readonly provision: ProvisionerFunc;
  readonly decommission: DecomissionerFunc;
  /** Rejects with what `provision` would fail with for good, as far as that is known without making anything. Undefined: nothing is known. */
  readonly tryOut?: (lease: LeaseRecord, signal: AbortSignal) => Promise<void>;
  /** Called now and then while the lease is active: makes again what is missing, and rejects with what is wrong, with unavailable if it cannot tell. Undefined: its result is as it was. Without it the provisioner is called. */
  readonly check?: (lease: AskedLease, signal: AbortSignal) => Promise<string | undefined>;
};

/** Resolves with JSON for the user. Rejects with pool_availability or unavailable to be called until its turn has come, with another fault that is retryable to be called some times more, with any other to have failed. */
export type ProvisionerFunc = (lease: AskedLease, signal: AbortSignal) => Promise<string>;

/** Removes what is there of this run of the lease and of earlier ones. Is called again when it rejects. */
export type DecomissionerFunc = (lease: LeaseRecord, signal: AbortSignal) => Promise<void>;
