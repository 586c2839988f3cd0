import { randomUUID } from "node:crypto";
import { pauseBy, systemClock, type Clock } from "@muster/backoff";
import { workQueue } from "@muster/controller";
import { isRetryable } from "@muster/faults";
import {
  DEFAULT_EVENT_LIMITS,
  eventCorrelation,
  type EventLimits,
  type EventTarget,
  type Occurrence,
  type RecordedEvent,
} from "./event-correlation.ts";
import type { KubeCalls } from "./kube-calls.ts";
import { kubeFault } from "./kube-fault.ts";
import type { KubeObject } from "./list-watch.ts";

/** Writes events that `kubectl describe` and `kubectl events` show. Disposing writes what still waits, for a limited time. */
export type EventRecorder = AsyncDisposable & {
  /** Never waits and never fails: an event is worth less than the work that it tells about. Ignored after disposal. */
  record(target: EventTarget, event: RecordedEvent): void;
  /** Numbers since the start. */
  stats(): EventStats;
};

export type EventStats = {
  readonly written: number;
  /** Counted in the event they belong to, but not written at once: the object had too many. */
  readonly spared: number;
  /** Lost because too many were waiting. */
  readonly dropped: number;
  /** Lost because the API server refused them, or did not answer for long. */
  readonly failed: number;
};

export type EventRecorderOptions = {
  readonly calls: Pick<KubeCalls, "create" | "patch">;
  /** Who says it: `job-controller`. */
  readonly component: string;
  /** Which one of several. */
  readonly instance?: string;
  readonly limits?: Partial<EventLimits>;
  /** Events that wait to be written; default 1000. Equal ones wait as one. */
  readonly waitingMax?: number;
  /** How long disposing may write; default 5 s. */
  readonly flushMs?: number;
  /** Told how many events were lost since the last time, once there is room again and at the end. */
  readonly onDropped?: (count: number) => void;
  /** Told about each event that was given up. */
  readonly onError?: (error: unknown) => void;
  readonly clock?: Clock;
  /** Time of day in milliseconds. */
  readonly wallClock?: () => number;
};

const WAITING_MAX = 1000;
const FLUSH_MS = 5000;
const WRITERS = 2;
const ATTEMPTS_MAX = 12;
const RETRY = { firstMs: 500, maxMs: 10_000, perSecond: 100, burst: 100 };

/** The event in the API. Until its creation was answered it may or may not be there. */
type Stored = { readonly name: string; readonly created: boolean };

/**
 * Events of the core API, because that is where equal ones have a count that everything shows. At most two are written at once; what the API server does not take for want of time is
 * tried again, twelve times.
 */
export function eventRecorder(options: EventRecorderOptions): EventRecorder {
  const { clock = systemClock, wallClock = () => Date.now(), waitingMax = WAITING_MAX, onDropped, onError } = options;
  const correlation = eventCorrelation({ ...DEFAULT_EVENT_LIMITS, ...options.limits }, clock.now);
  const queue = workQueue({ limits: RETRY, clock });
  const stored = new WeakMap<Occurrence, Stored>();
  const count = { written: 0, spared: 0, failed: 0 };
  const late = new AbortController();
  const losses = lossCount(onDropped);
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
      if (open && isWorthAnother(error, queue.numRequeues(key))) {
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
      if (waiting() < waitingMax / 2) losses.tell();
    }
  });

  return {
    record: (target, event) => {
      if (!open) return;
      const { occurrence, write: mayWrite } = correlation.observe(target, event, wallClock());
      if (!mayWrite) count.spared += 1;
      else if (waiting() >= waitingMax) losses.add(1);
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
        late.abort(new DOMException("the time to write events is over", "AbortError"));
        void queue.shutDown();
      });
      await drained;
      over.abort();
      await Promise.all([limit, ...writing]);
      losses.add(delayedEvents);
      losses.tell();
    },
  };
}

/** Events that were lost, and how many of them `onDropped` was not told of yet. */
function lossCount(onDropped: EventRecorderOptions["onDropped"]) {
  let total = 0;
  let untold = 0;
  return {
    total: () => total,
    add: (events: number): void => {
      total += events;
      untold += events;
    },
    tell: (): void => {
      if (untold > 0) onDropped?.(untold);
      untold = 0;
    },
  };
}

function isWorthAnother(error: unknown, attempts: number): boolean {
  const fault = kubeFault(error);
  return fault !== undefined && isRetryable(fault) && attempts < ATTEMPTS_MAX;
}

/** Creates the event, or brings the one that was created up to date; one that has expired meanwhile is created anew. */
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
  if (known?.created === true && (await isNot("not_found", update(known.name)))) return;

  // The name is chosen before the first attempt, so that a creation whose answer was lost is not made twice.
  const name = known?.created === false ? known.name : newName(target.name);
  stored.set(occurrence, { name, created: false });
  const event = buildEvent(name, occurrence, component, instance ?? component);
  if (!(await isNot("already_exists", calls.create(resource, event, { signal })))) await update(name);
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

/** False in place of an error with this fault. */
async function isNot(code: "not_found" | "already_exists", call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (error) {
    if (kubeFault(error)?.code === code) return false;
    throw error;
  }
}

function newName(about: string): string {
  return `${about.slice(0, 200)}.${randomUUID().slice(-12)}`;
}

function time(wallMs: number): string {
  return `${new Date(wallMs).toISOString().slice(0, 19)}Z`;
}
