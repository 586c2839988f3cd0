import { FaultError, findFault, type Fault, type FaultCode } from "@muster/faults";
import { computeBackoffMs, pause } from "./backoff.ts";

/** The attempt of a compare-and-set with the current value: no change, or a write that rejects with a conflict when the value has changed since. */
export type Attempt<Result> = { readonly unchanged: Result } | { readonly write: () => Promise<Result> };

export type RetryOnConflictOptions = {
  /** Fault codes by which a write reports a conflict with another writer; default: conflict. */
  readonly codes?: readonly FaultCode[];
  /** Reads the fault of an error; default `faultOf`. */
  readonly faultOf?: (error: unknown) => Fault | undefined;
};

const MAX_ATTEMPTS = 20;
/** A first conflict is chance and is retried immediately; later ones are contention. */
const MAX_IMMEDIATE = 2;
const PAUSE = { firstMs: 2, maxMs: 50 };

/**
 * Runs a compare-and-set until no other writer comes first. `attempt` reads and decides, and runs again after a conflict of its write. During contention, a
 * jittered pause precedes each attempt. Attempts are numbered from 1: the first may use a stale copy. Rejects with every error of `attempt` itself, also a
 * conflict. Rejects with the conflict of the 20th write, whose message names `target`. After unavailable the write may have happened.
 */
export async function retryOnConflict<Result>(
  target: string,
  attempt: (number: number) => Attempt<Result> | Promise<Attempt<Result>>,
  options: RetryOnConflictOptions = {},
): Promise<Result> {
  const { codes = ["conflict"], faultOf: read = findFault } = options;
  for (let number = 1; ; number += 1) {
    const decided = await attempt(number);
    if ("unchanged" in decided) return decided.unchanged;
    try {
      return await decided.write();
    } catch (cause) {
      const fault = read(cause);
      if (fault === undefined || !codes.includes(fault.code)) throw cause;
      if (number === MAX_ATTEMPTS)
        throw new FaultError(fault, { doing: `changing ${target}: other writers came first ${number} times`, cause });
    }
    if (number > MAX_IMMEDIATE) await pause(computeBackoffMs(number - MAX_IMMEDIATE, PAUSE));
  }
}
