import { retryOnConflict } from "@muster/backoff";
import { isOver, type Result, toNanosecondsFromMs } from "@muster/leases";
import { buildResult } from "../domain/signed-content.ts";
import { transitionLease } from "../domain/transition-lease.ts";
import type { PassOutcome, PassDeps } from "./pass.ts";
import type { LeaseRecord } from "../domain/lease.ts";

type CheckDeps = Pick<PassDeps, "fence" | "now" | "read" | "write" | "sign"> & {
  /** Checks an active lease and recreates missing parts. Undefined: the lease has ended; an outcome that `isWaiting`: the check was not possible. */
  readonly check: (record: LeaseRecord) => Promise<PassOutcome | undefined>;
};

/** Checks one active lease and records changes. Returns whether it is troubled. Must not run concurrently with a pass over the same lease. */
export async function checkLease(deps: CheckDeps, id: string): Promise<boolean> {
  const found = await activeLease(deps, id);
  if (found === undefined) return false;
  const outcome = await deps.check(found.record);
  // An unavailable dependency does not prove a trouble of the lease.
  if (outcome === undefined || (!outcome.ok && outcome.isWaiting === true)) return false;
  return retryOnConflict(`lease ${id}`, async () => {
    const stored = await activeLease(deps, id);
    if (stored?.record.run !== found.record.run) return { unchanged: false };
    const { next } = transitionLease(stored.record, buildCheckChange(deps, stored.record, outcome), deps.now());
    if (next === undefined) return { unchanged: !outcome.ok };
    return { write: () => deps.write(stored, next).then(() => !outcome.ok) };
  });
}

async function activeLease({ fence, now, read }: CheckDeps, id: string) {
  const stored = await read(id);
  if (stored === undefined || stored.record.fence > fence) return undefined;
  const { phase, expiresAtNs } = stored.record;
  return phase === "ACTIVE" && !isOver(expiresAtNs, now()) ? stored : undefined;
}

function buildCheckChange({ sign, now }: CheckDeps, { order, result }: LeaseRecord, outcome: PassOutcome) {
  if (!outcome.ok) return { kind: "checked", trouble: outcome.message, result: undefined } as const;
  const changed = (): Result => sign(buildResult(order, { data: outcome.data }, now()));
  const { recreated = [] } = outcome;
  return {
    kind: "checked",
    trouble: "",
    result: outcome.data === result?.data ? undefined : changed(),
    recreated,
  } as const;
}

/** The times of the next check of each active lease. Only the leader keeps them; a new leader spreads them again. */
export type LeaseChecks = {
  /** The next check is due strictly after this time; undefined if the lease is not active. */
  next(record: LeaseRecord, nowNs: bigint): bigint | undefined;
  /** As `next`, for a known lease. */
  scheduled(id: string): bigint | undefined;
  isDue(id: string, nowNs: bigint): boolean;
  /** Records that a check has ended. */
  done(id: string, isTroubled: boolean, nowNs: bigint): void;
  /** Schedules an early check, because an object of the lease has disappeared. */
  soon(id: string, nowNs: bigint): void;
  forget(id: string): void;
};

/** Interval of the checks of a troubled lease. */
const TROUBLED_INTERVAL_MS = 60_000;
/** Minimum interval between two checks of one lease, however often its objects vanish. */
const MIN_INTERVAL_MS = 10_000;

/** `random` returns a number from 0 (inclusive) to 1. */
export function openChecks(everyMs: number, random: () => number): LeaseChecks {
  const due = new Map<string, bigint>();
  const notBefore = new Map<string, bigint>();
  const inNs = (ms: number): bigint => toNanosecondsFromMs(Math.round(ms));
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
