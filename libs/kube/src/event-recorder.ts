import { randomUUID } from "node:crypto";
import { pauseBy, systemClock, type Clock } from "@muster/backoff";
import { workQueue } from "@muster/controller";
import { isRetryable } from "@muster/faults";
import {
  DEFAULT_EVENT_LIMITS,
  makeEventCorrelation,
  type EventLimits,
  type EventTarget,
  type Occurrence,
  type RecordedEvent,
} from "./event-correlation.ts";
import type { KubeCalls } from "./kube-calls.ts";
import { toKubeFault } from "./kube-fault.ts";
import { unlessFault } from "./unless-fault.ts";
import type { KubeObject } from "./list-watch.ts";

/** Writes events that `kubectl describe` and `kubectl events` show. Disposing writes the events that still wait, for a limited time. */
type EventRecorder = AsyncDisposable & {
  /** Never waits and never fails: an event is worth less than the work that it describes. Ignored after disposal. */
  record(target: EventTarget, event: RecordedEvent): void;
  /** Counters since the start. */
  stats(): EventStats;
};

type EventStats = {
  readonly written: number;
  /** Occurrences that were counted but not written, because the object has exceeded its rate limit. */
  readonly rateLimited: number;
  /** Events lost because too many were waiting. */
  readonly dropped: number;
  /** Events lost because the API server refused them, or did not answer in time. */
  readonly failed: number;
};

export type EventRecorderOptions = {
  readonly calls: Pick<KubeCalls, "create" | "patch">;
  /** The reporting component: `job-controller`. */
  readonly component: string;
  /** Name of the replica of the component. */
  readonly instance?: string;
  readonly limits?: Partial<EventLimits>;
  /** Maximum events that wait to be written; default 1000. Equal events count as one. */
  readonly maxWaiting?: number;
  /** Maximum milliseconds that disposal writes; default 5 s. */
  readonly flushMs?: number;
  /** Reports the number of dropped events since the last call, when the queue has room again and at the end. */
  readonly onDropped?: (count: number) => void;
  /** Reports each event that is dropped after an error. */
  readonly onError?: (error: unknown) => void;
  readonly clock?: Clock;
  /** Unix milliseconds. */
  readonly wallClock?: () => number;
};

const MAX_WAITING = 1000;
const FLUSH_MS = 5000;
const WRITERS = 2;
const MAX_ATTEMPTS = 12;
const RETRY = { firstMs: 500, maxMs: 10_000, perSecond: 100, burst: 100 };

/** An event of the API. Until its creation is answered, it may or may not exist. */
type Stored = { readonly name: string; readonly created: boolean };

/**
 * Writes events of the core API, because every client shows their counts. At most two are written concurrently. A write that fails for a temporary reason is
 * retried twelve times.
 */
export function makeEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { clock = systemClock, wallClock = () => Date.now(), maxWaiting = MAX_WAITING, onDropped, onError } = options;
  const correlation = makeEventCorrelation({ ...DEFAULT_EVENT_LIMITS, ...options.limits }, clock.now);
  const queue = workQueue({ limits: RETRY, clock });
  const stored = new WeakMap<Occurrence, Stored>();
  const count = { written: 0, rateLimited: 0, failed: 0 };
  const late = new AbortController();
  const losses = countLosses(onDropped);
  let open = true;
  const waiting = (): number => queue.stats().ready + queue.stats().delayed;

  async function write(key: string): Promise<void> {
    const occurrence = correlation.get(key);
    if (occurrence === undefined) {
      losses.add(1);
      return;
    }
    try {
      await store(options, occurrence, stored, late.signal);
      count.written += 1;
      queue.forget(key);
    } catch (error) {
      if (open && shouldRetry(error, queue.numRequeues(key))) {
        queue.addRateLimited(key);
        return;
      }
      queue.forget(key);
      count.failed += 1;
      onError?.(error);
    }
  }

  const writing = Array.from({ length: WRITERS }, async () => {
    for (let key = await queue.get(); key !== undefined; key = await queue.get()) {
      await write(key);
      queue.done(key);
      if (waiting() < maxWaiting / 2) losses.report();
    }
  });

  return {
    record: (target, event) => {
      if (!open) return;
      const { occurrence, write: mayWrite } = correlation.observe(target, event, wallClock());
      if (!mayWrite) count.rateLimited += 1;
      else if (waiting() >= maxWaiting) losses.add(1);
      else queue.add(occurrence.key);
    },
    stats: () => ({ ...count, dropped: losses.total() }),
    [Symbol.asyncDispose]: async () => {
      open = false;
      const delayedEvents = queue.stats().delayed;
      const drained = queue.shutDown({ drain: true });
      const over = new AbortController();
      const limit = pauseBy(clock, options.flushMs ?? FLUSH_MS, over.signal).then(() => {
        if (over.signal.aborted) return;
        losses.add(queue.length);
        late.abort(new DOMException("the time to write events has ended", "AbortError"));
        void queue.shutDown();
      });
      await drained;
      over.abort();
      await Promise.all([limit, ...writing]);
      losses.add(delayedEvents);
      losses.report();
    },
  };
}

/** Counts lost events, and how many of them `onDropped` has not reported yet. */
function countLosses(onDropped: EventRecorderOptions["onDropped"]) {
  let total = 0;
  let unreported = 0;
  return {
    total: () => total,
    add: (events: number): void => {
      total += events;
      unreported += events;
    },
    report: (): void => {
      if (unreported > 0) onDropped?.(unreported);
      unreported = 0;
    },
  };
}

function shouldRetry(error: unknown, attempts: number): boolean {
  const fault = toKubeFault(error);
  return fault !== undefined && isRetryable(fault) && attempts < MAX_ATTEMPTS;
}

/** Creates or updates the event. An expired event is recreated. */
async function store(
  { calls, component, instance }: EventRecorderOptions,
  occurrence: Occurrence,
  stored: WeakMap<Occurrence, Stored>,
  signal: AbortSignal,
): Promise<void> {
  const { target, count } = occurrence;
  const namespace = target.namespace ?? "default";
  const resource = { apiVersion: "v1", plural: "events", namespace };
  const body = { count, lastTimestamp: time(occurrence.lastMs), message: occurrence.message };
  const update = (name: string) => calls.patch(resource, name, { kind: "merge", body }, { signal });
  const known = stored.get(occurrence);
  if (known?.created === true && (await isDoneUnless("not_found", update(known.name)))) return;

  // The name is chosen before the first attempt, so that a creation whose answer was lost creates no second event.
  const name = known?.created === false ? known.name : newName(target.name);
  stored.set(occurrence, { name, created: false });
  const event = buildEvent(name, occurrence, component, instance ?? component);
  if (!(await isDoneUnless("already_exists", calls.create(resource, event, { signal })))) await update(name);
  stored.set(occurrence, { name, created: true });
}

function buildEvent(name: string, occurrence: Occurrence, component: string, instance: string): KubeObject {
  const { target, type, reason, message, count, firstMs, lastMs } = occurrence;
  const event = {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, namespace: target.namespace ?? "default" },
    involvedObject: target,
    type,
    reason,
    message,
    count,
    firstTimestamp: time(firstMs),
    lastTimestamp: time(lastMs),
    source: { component },
    reportingComponent: component,
    reportingInstance: instance,
  };
  return event;
}

/** Returns whether the call succeeded: false for a fault with this code. Rejects with other errors. */
async function isDoneUnless(code: "not_found" | "already_exists", call: Promise<unknown>): Promise<boolean> {
  const done = call.then(() => true);
  return (await unlessFault(done, code)) ?? false;
}

function newName(about: string): string {
  return `${about.slice(0, 200)}.${randomUUID().slice(-12)}`;
}

function time(wallMs: number): string {
  return `${new Date(wallMs).toISOString().slice(0, 19)}Z`;
}
