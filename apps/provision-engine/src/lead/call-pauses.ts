import { decideRetry, type RetryPolicy } from "../domain/decide-retry.ts";
import type { LeaseRecord } from "../domain/lease.ts";

type Called = Pick<LeaseRecord, "order" | "run" | "phase">;

/**
 * Pauses between calls that wait without having failed, for example in the queue of a pool. Only the leader keeps them, so that a lease that waits for days
 * costs no writes. A new leader calls once and starts with short pauses.
 */
export type CallPauses = {
  /** Records that the call waits, which lengthens the pause before its next attempt. */
  noteWait(lease: Called, nowNs: bigint): void;
  /** The record with its pause as the earliest time of the next step. */
  withPause(record: LeaseRecord): LeaseRecord;
  /** Records that the lease's wait may be over. If the grant arrives before the answer of a pending call, that answer starts no pause. */
  noteGrant(id: string): void;
  /** Clears the pauses of a lease that makes no more waiting calls, or is active. */
  clear(id: string): void;
};

/** The first pause is as long as the pause after this number of failures. */
const FIRST_FAILURES = 3;

export function makeCallPauses(retry: RetryPolicy): CallPauses {
  const pauses = new Map<
    string,
    Pick<Called, "run" | "phase"> & { readonly times: number; readonly untilNs: bigint }
  >();
  const grants = new Set<string>();
  const pauseOf = ({ order, run, phase }: Called) => {
    const found = pauses.get(order.id);
    return found?.run === run && found.phase === phase ? found : undefined;
  };
  return {
    noteWait: (lease, nowNs) => {
      const { order, run, phase } = lease;
      if (grants.delete(order.id)) return;
      const times = (pauseOf(lease)?.times ?? 0) + 1;
      pauses.set(order.id, { run, phase, times, untilNs: decideRetry(FIRST_FAILURES - 1 + times, nowNs, retry) });
    },
    withPause: (record) => {
      const notBeforeNs = pauseOf(record)?.untilNs ?? 0n;
      return notBeforeNs > record.notBeforeNs ? { ...record, notBeforeNs } : record;
    },
    noteGrant: (id) => {
      pauses.delete(id);
      grants.add(id);
    },
    clear: (id) => {
      pauses.delete(id);
      grants.delete(id);
    },
  };
}
