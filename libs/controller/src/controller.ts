import { setImmediate as nextTurn } from "node:timers/promises";
import { pauseBy, systemClock, type Clock } from "@muster/backoff";
import { FaultError, logLevelOf } from "@muster/faults";
import { makeControllerMetrics, type ControllerMetrics, type PassOutcome } from "./controller-metrics.ts";
import { startResync } from "./resync.ts";
import { onAbort, openStopGrace } from "./stop-grace.ts";
import type { WorkQueue } from "./work-queue.ts";

/** The result of a pass. `requeueAfterMs`: delay of the next pass; undefined: none, 0: immediately. An event runs it earlier. */
export type ReconcileResult = {
  readonly requeueAfterMs?: number;
  /** True after a failure. The rate limits of the queue set the time of the next pass, as after an error. */
  readonly isFailed?: boolean;
  /** With `isFailed`, the error for `onError`. Undefined: the pass has reported the failure itself. */
  readonly error?: unknown;
};

/** Runs one pass over the object of this key, which brings the observed state closer to the desired one. Idempotent, also after the object's deletion. */
export type Reconcile = (key: string, signal: AbortSignal) => Promise<ReconcileResult | undefined>;

/** The lead of this process: a `Leadership` or a `Session` of the store. */
export type ControllerLead = {
  /** Aborted only when the lead may be lost. A signal that a stop also aborts would abort passes that may finish. */
  readonly lost: AbortSignal;
  /** Whether the lead is held at this moment, by the monotonic clock: a frozen process may run a pass before the timer that aborts the signal. */
  readonly isHeld: () => boolean;
};

export type ControllerOptions = {
  /** Name in spans and metrics; low cardinality. */
  readonly name: string;
  /** Filled by the caller, for example from `onChange` of informers; shut down when the controller ends. */
  readonly queue: WorkQueue;
  readonly reconcile: Reconcile;
  /** Concurrent passes, always of different keys; default 1. Infinity: each pass begins as soon as its key is ready, and the called services limit them. */
  readonly workers?: number;
  /** The first pass waits until these have resolved: `informers.map(({ synced }) => synced)`. */
  readonly synced?: readonly Promise<unknown>[];
  /** Default 2 minutes. */
  readonly syncTimeoutMs?: number;
  /** Adds every key once per period (default 15 s), spread over it, except keys in back-off. Without keys, no resync runs. */
  readonly resync?: { readonly keys: () => Iterable<string>; readonly everyMs?: number };
  /** Aborted for an orderly end: no new pass begins, and those in flight may finish. */
  readonly stop: AbortSignal;
  /**
   * Maximum milliseconds that passes in flight may continue after a stop, before their signal is aborted. Default 10 s, half of the shutdown time of a service.
   */
  readonly stopGraceMs?: number;
  /** The lead under which passes run; without it, none starts. Its loss aborts every pass and ends the controller. */
  readonly lead?: ControllerLead;
  /**
   * Called for each pass that failed and will be retried; `failures` in a row. `level`: for the log. An error that is no fault is a defect of the pass, and
   * counts and is retried like a fault.
   */
  readonly onError?: (error: unknown, key: string, failures: number, level: "warn" | "error") => void;
  readonly clock?: Clock;
};

const SYNC_TIMEOUT_MS = 120_000;
const RESYNC_EVERY_MS = 15_000;
/** Maximum time without a yield, because passes that never wait would block network I/O. */
const TURN_MS = 10;

/**
 * Waits until the caches are complete, then runs passes until it is stopped. Resolves when the last pass has ended; a pass that ignores its signal delays it.
 * Rejects with FaultError deadline_exceeded if the caches are not complete in time, and with their error if they fail. A failed pass is reported and retried by
 * the queue's rate limits; the others continue.
 */
export async function runController(options: ControllerOptions): Promise<void> {
  const { queue, workers = 1, resync, stop, lead, clock = systemClock } = options;
  const end = new AbortController();
  await using undo = new AsyncDisposableStack();
  undo.defer(onAbort(stop, () => end.abort()));
  undo.defer(onAbort(lead?.lost, () => end.abort()));
  // Runs also when the caches fail: no worker will take a key.
  undo.defer(() => queue.shutDown());
  await untilSynced(options, end.signal);
  if (end.signal.aborted) return;

  const metrics = makeControllerMetrics(options.name, queue);
  undo.defer(() => metrics.stop());
  if (resync !== undefined) {
    const add = (key: string): void => {
      if (!queue.isBackingOff(key)) queue.add(key, "low");
    };
    undo.defer(startResync({ everyMs: RESYNC_EVERY_MS, ...resync, add, onRound: metrics.resynced, clock }));
  }
  const length = Number.isFinite(workers) ? workers : 1;
  undo.defer(onAbort(end.signal, () => void queue.shutDown()));
  using grace = openStopGrace({ stop: end.signal, lost: lead?.lost, graceMs: options.stopGraceMs, clock });
  await Promise.all(Array.from({ length }, () => work(options, metrics, end.signal, grace.signal)));
}

async function untilSynced(options: ControllerOptions, stop: AbortSignal): Promise<void> {
  const { name, synced = [], syncTimeoutMs = SYNC_TIMEOUT_MS, clock = systemClock } = options;
  const over = new AbortController();
  const signal = AbortSignal.any([stop, over.signal]);
  const late = pauseBy(clock, syncTimeoutMs, signal).then(() => {
    if (signal.aborted) return;
    throw new FaultError({
      code: "deadline_exceeded",
      operation: `the first lists of ${name}`,
      timeoutMs: syncTimeoutMs,
    });
  });
  try {
    await Promise.race([Promise.all(synced), late]);
  } finally {
    over.abort();
  }
}

/** A key that was taken just before the end gets no pass. */
async function work(
  options: ControllerOptions,
  metrics: ControllerMetrics,
  end: AbortSignal,
  cut: AbortSignal,
): Promise<void> {
  const { queue, workers } = options;
  const passing = new Set<Promise<void>>();
  let turnAtMs = performance.now();
  for (let key = await queue.get(); key !== undefined; key = await queue.get()) {
    if (performance.now() - turnAtMs > TURN_MS) {
      await nextTurn();
      turnAtMs = performance.now();
    }
    if (end.aborted) {
      queue.done(key);
      continue;
    }
    const ended = measuredPass(options, metrics, key, cut);
    if (workers !== Infinity) await ended;
    else {
      passing.add(ended);
      void ended.then(() => passing.delete(ended));
    }
  }
  await Promise.all(passing);
}

async function measuredPass(
  options: ControllerOptions,
  metrics: ControllerMetrics,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  const startedMs = performance.now();
  const outcome = await pass(options, key, signal);
  metrics.passed(outcome, (performance.now() - startedMs) / 1000);
  options.queue.done(key);
}

/** Runs one pass, schedules its retry or requeue, and returns its outcome. Never rejects. */
async function pass(options: ControllerOptions, key: string, signal: AbortSignal): Promise<PassOutcome> {
  const { queue, reconcile, lead } = options;
  if (lead?.isHeld() === false) return "stopped";
  try {
    const next = await reconcile(key, signal);
    if (next?.isFailed === true) {
      if (signal.aborted) return "stopped";
      retry(options, key, next.error);
      return "error";
    }
    queue.forget(key);
    if (next?.requeueAfterMs === undefined) return "success";
    queue.addAfter(key, next.requeueAfterMs);
    return "requeue";
  } catch (error) {
    if (signal.aborted || (options.stop.aborted && isAbortError(error))) return "stopped";
    retry(options, key, error);
    return "error";
  }
}

/** `error`: undefined when the pass has reported it. */
function retry({ queue, onError }: ControllerOptions, key: string, error: unknown): void {
  queue.addRateLimited(key);
  if (error === undefined) return;
  try {
    onError?.(error, key, queue.numRequeues(key), logLevelOf(error));
  } catch {
    // A defect in `onError` must not end a worker.
  }
}

/** Whether a pass threw this error because it ended its own calls at the stop. */
function isAbortError(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}
