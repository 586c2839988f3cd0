import { decideRetry, type RetryPolicy } from "../domain/decide-retry.ts";
import type { LeaseRecord } from "../domain/lease.ts";

type Called = Pick<LeaseRecord, "order" | "run" | "phase">;

/**
 * When what waits without having failed, as in the queue of a pool, is asked for again. Known only to who leads, so that a lease that waits for days costs no writes: a
 * new leader asks once, and begins anew with short pauses.
 */
export type CallPauses = {
  /** It was asked for and waits: the pause until it is asked again grows. */
  noteWait(lease: Called, nowNs: bigint): void;
  /** The record as it is to be decided about: not before its pause is over. */
  withPause(record: LeaseRecord): LeaseRecord;
  /** What it waits for may be there. That may be heard before the answer that it waits, which then counts for nothing. */
  noteGrant(id: string): void;
  /** It is not asked for any more, or may be there by now. */
  clear(id: string): void;
};

/** What waits is asked for again first after the pause that so many failures have. */
const FIRST_FAILURES = 3;

export function callPauses(retry: RetryPolicy): CallPauses {
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
