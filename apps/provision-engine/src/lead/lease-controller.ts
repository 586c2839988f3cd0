import { systemClock, type Clock } from "@muster/backoff";
import {
  runController,
  workQueue,
  type ControllerLead,
  type Reconcile,
  type ReconcileResult,
} from "@muster/controller";
import type { RetryPolicy } from "../domain/decide-retry.ts";

export type LeaseControllerOptions = {
  /** Name of the controller in metrics. */
  readonly name: string;
  readonly reconcile: Reconcile;
  /** The time of day, by which leases end; an operator may set it. */
  readonly nowNs: () => bigint;
  readonly retry: RetryPolicy;
  /** Called for each pass that failed; it is retried with a growing pause. */
  readonly failed: (id: string, error: unknown) => void;
  /** No pass begins after the signal of the lead. */
  readonly lead: ControllerLead & { readonly signal: AbortSignal };
  /** Leases that get a pass in each period even without a reported change. */
  readonly resyncKeys?: () => Iterable<string>;
  /** Default: the machine's own. */
  readonly clock?: Clock;
};

/** Makes passes over leases: one at a time for each lease, concurrently for different leases. The called services limit their own calls. */
export type LeaseController = {
  /** Makes a pass now, or once the one in flight has ended. */
  readonly add: (id: string) => void;
  /** Makes a pass strictly after the time. The earliest of several times wins. */
  readonly addAt: (id: string, atNs: bigint | undefined) => void;
  /** Resolves after the signal of the lead, once no pass is in flight. */
  readonly done: Promise<void>;
};

/** Maximum time until the controller notices that the time of day was set forward. */
const MAX_ALARM_MS = 10_000;

export function startLeaseController(options: LeaseControllerOptions): LeaseController {
  const { name, reconcile, nowNs, retry, failed, lead, resyncKeys, clock = systemClock } = options;
  // A number holds the nanoseconds since the start exactly, but not those since 1970.
  const startedNs = nowNs();
  const queue = workQueue({
    // Only limits per lease: failures of one lease delay no other.
    limits: { firstMs: retry.firstMs, maxMs: retry.maxMs, burst: Infinity },
    clock,
    dueClock: {
      now: () => toMs(nowNs() - startedNs),
      alarm: (afterMs, ring) => clock.alarm(Math.min(Math.max(1, Math.ceil(afterMs)), MAX_ALARM_MS), ring),
    },
  });
  const done = runController({
    name,
    queue,
    workers: Infinity,
    reconcile,
    stop: lead.signal,
    lead,
    ...(resyncKeys !== undefined && { resync: { keys: resyncKeys } }),
    clock,
    onError: (error, id) => failed(id, error),
  });
  return {
    add: (id) => queue.add(id),
    addAt: (id, atNs) => {
      const { requeueAfterMs } = requeueAfter(atNs, nowNs());
      if (requeueAfterMs !== undefined) queue.addAfter(id, requeueAfterMs);
    },
    done,
  };
}

/** The next pass is made strictly after this time; undefined: after a change. */
export function requeueAfter(atNs: bigint | undefined, nowNs: bigint): ReconcileResult {
  return atNs === undefined ? {} : { requeueAfterMs: toMs(atNs + 1n - nowNs) };
}

function toMs(ns: bigint): number {
  return Number(ns) / 1_000_000;
}
