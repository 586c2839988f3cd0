import { setImmediate as nextTurn } from "node:timers/promises";
import { FaultError } from "@muster/faults";
import { inSpan } from "@muster/tracing";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import { pauseBy, systemClock, type Clock } from "./clock.ts";
import { controllerMetrics, type ControllerMetrics, type Outcome } from "./controller-metrics.ts";
import { startResync } from "./resync.ts";
import type { WorkQueue } from "./work-queue.ts";

/** What a pass wants next: nothing, or to come again in so many milliseconds; 0 is at once. Something that happens earlier brings it earlier. */
export type Reconciled = { readonly requeueAfterMs?: number };

/** One pass over the object of this key: looks at how things are and makes them a step more as they should be. May be called at any time, any number of times, for what no longer exists, too. */
export type Reconcile = (key: string, signal: AbortSignal) => Promise<Reconciled | undefined>;

export type ControllerOptions = {
  /** For spans and metrics; low cardinality. */
  readonly name: string;
  /** Filled by the caller, for example from `onChange` of informers; shut down when the controller ends. */
  readonly queue: WorkQueue;
  readonly reconcile: Reconcile;
  /** Passes at the same time, always of different keys; default 1. */
  readonly workers?: number;
  /** No pass is made before these have resolved: `informers.map(({ synced }) => synced)`. */
  readonly synced?: readonly Promise<unknown>[];
  /** Default 2 minutes. */
  readonly syncTimeoutMs?: number;
  /** All keys that there are; each is looked at again once in every period, default 15 s, spread over it. Without keys there is no resync. */
  readonly resync?: { readonly keys: () => Iterable<string>; readonly everyMs?: number };
  /** Aborted for an orderly end: no new pass is begun, those in work may finish. */
  readonly stop: AbortSignal;
  /** How long those in work may take then, before their signal is aborted; default 30 s. */
  readonly stopGraceMs?: number;
  /** Aborted to cut every pass short at once, because going on would do harm: the lead is lost. Ends the controller, too. */
  readonly abort?: AbortSignal;
  /** Told about each pass that failed and will be made again; `failures` in a row. */
  readonly onError?: (error: unknown, key: string, failures: number) => void;
  readonly clock?: Clock;
};

const SYNC_TIMEOUT_MS = 120_000;
const RESYNC_EVERY_MS = 15_000;
const STOP_GRACE_MS = 30_000;
/** Passes that never wait for anything would keep the process from its network; this long at most. */
const TURN_MS = 10;

/**
 * Waits until the caches are complete, then makes passes until it is stopped. Resolves when the last pass has ended: a pass that ignores its signal holds it up.
 * Rejects with FaultError deadline_exceeded when the caches are not complete in time, and with their error when they fail. A pass that rejects, throws or is a defect of ours
 * is reported and made again by the queue's rate limits; the others go on.
 */
export async function runController(options: ControllerOptions): Promise<void> {
  const { queue, workers = 1, resync, stop, abort, clock = systemClock } = options;
  const end = new AbortController();
  const cut = new AbortController();
  await using undo = new AsyncDisposableStack();
  undo.defer(follow(stop, () => end.abort()));
  undo.defer(
    follow(abort, () => {
      end.abort();
      cut.abort(abort?.reason);
    }),
  );
  // Also when the caches fail: nobody else will take a key.
  undo.defer(() => queue.shutDown());
  await untilSynced(options, end.signal);
  if (end.signal.aborted) return;

  const metrics = controllerMetrics(options.name, queue);
  undo.defer(() => metrics.stop());
  if (resync !== undefined) {
    const add = (key: string): void => queue.add(key, "low");
    undo.defer(startResync({ everyMs: RESYNC_EVERY_MS, ...resync, add, clock }));
  }
  const working = Promise.all(Array.from({ length: workers }, () => work(options, metrics, cut.signal)));
  const ended = new AbortController();
  const ending = aborted(end.signal).then(async () => {
    void queue.shutDown();
    await pauseBy(clock, options.stopGraceMs ?? STOP_GRACE_MS, ended.signal);
    if (!ended.signal.aborted) cut.abort(new DOMException("the time to finish is over", "AbortError"));
  });
  await working;
  end.abort();
  ended.abort();
  await ending;
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

async function work(options: ControllerOptions, metrics: ControllerMetrics, signal: AbortSignal): Promise<void> {
  const { queue } = options;
  let turnAtMs = performance.now();
  for (let key = await queue.get(); key !== undefined; key = await queue.get()) {
    if (performance.now() - turnAtMs > TURN_MS) {
      await nextTurn();
      turnAtMs = performance.now();
    }
    const startedMs = performance.now();
    const outcome = await pass(options, key, signal);
    metrics.passed(outcome, (performance.now() - startedMs) / 1000);
    queue.done(key);
  }
}

/** Never rejects. */
async function pass(options: ControllerOptions, key: string, signal: AbortSignal): Promise<Outcome> {
  const { name, queue, reconcile } = options;
  try {
    const attributes = { "kube.controller": name, "kube.key": key, "kube.failures": queue.numRequeues(key) };
    const next = await inSpan("@muster/kube", `reconcile ${name}`, { attributes, parent: ROOT_CONTEXT }, async () =>
      reconcile(key, signal),
    );
    queue.forget(key);
    if (next?.requeueAfterMs === undefined) return "success";
    queue.addAfter(key, next.requeueAfterMs);
    return "requeue";
  } catch (error) {
    if (signal.aborted) return "stopped";
    queue.addRateLimited(key);
    try {
      options.onError?.(error, key, queue.numRequeues(key));
    } catch {
      // Whoever reports errors has a defect of its own, which must not take a worker away.
    }
    return "error";
  }
}

/** Calls once when the signal is aborted, also when it was before. Returns the way to stop listening. */
function follow(signal: AbortSignal | undefined, call: () => void): () => void {
  if (signal?.aborted === true) call();
  else signal?.addEventListener("abort", call, { once: true });
  return () => signal?.removeEventListener("abort", call);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => void follow(signal, resolve));
}
