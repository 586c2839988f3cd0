import { isOver, nsFromMs } from "@muster/leases";
import type { LeaseRecord } from "../domain/lease.ts";

/** The times of the next check of each active lease. Only the leader keeps them; a new leader spreads them again. */
export type Checks = {
  /** Strictly after this time; undefined if the lease is not active. */
  next(record: LeaseRecord, nowNs: bigint): bigint | undefined;
  /** As `next`, for a known lease. */
  scheduled(id: string): bigint | undefined;
  isDue(id: string, nowNs: bigint): boolean;
  /** The check has just ended. */
  done(id: string, isTroubled: boolean, nowNs: bigint): void;
  /** An object of the lease has vanished. */
  soon(id: string, nowNs: bigint): void;
  forget(id: string): void;
};

/** Interval of the checks of a troubled lease. */
const TROUBLED_INTERVAL_MS = 60_000;
/** Minimum interval between two checks of one lease, however often its objects vanish. */
const MIN_INTERVAL_MS = 10_000;

/** `random` returns a number from 0 (inclusive) to 1. */
export function openChecks(everyMs: number, random: () => number): Checks {
  const due = new Map<string, bigint>();
  const notBefore = new Map<string, bigint>();
  const inNs = (ms: number): bigint => nsFromMs(Math.round(ms));
  const forget = (id: string): void => {
    due.delete(id);
    notBefore.delete(id);
  };
  return {
    next: ({ order: { id }, phase }, nowNs) => {
      if (phase !== "ACTIVE") {
        forget(id);
        return undefined;
      }
      const known = due.get(id) ?? nowNs + inNs(everyMs * (1 + random())) / 2n;
      due.set(id, known);
      return known;
    },
    scheduled: (id) => due.get(id),
    isDue: (id, nowNs) => isOver(due.get(id) ?? nowNs, nowNs),
    done: (id, isTroubled, nowNs) => {
      if (!due.has(id)) return;
      const pauseMs = isTroubled ? Math.min(everyMs, TROUBLED_INTERVAL_MS) : everyMs;
      due.set(id, nowNs + inNs(pauseMs * (0.9 + 0.2 * random())));
      notBefore.set(id, nowNs + inNs(Math.min(everyMs, MIN_INTERVAL_MS)));
    },
    soon: (id, nowNs) => {
      const known = due.get(id);
      if (known === undefined) return;
      const earliestNs = notBefore.get(id) ?? nowNs;
      const soonNs = earliestNs > nowNs ? earliestNs : nowNs - 1n;
      if (soonNs < known) due.set(id, soonNs);
    },
    forget,
  };
}
