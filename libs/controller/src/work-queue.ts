import { systemClock, type Clock, type SettableClock } from "@muster/backoff";
import { makeDelayedKeys } from "./delayed-keys.ts";
import { DEFAULT_RATE_LIMITS, makeRateLimiter, type RateLimits } from "./rate-limiter.ts";

/** High: an event. Low: a resync, which may wait while events come. */
export type QueuePriority = "high" | "low";

/** Keys that wait for a worker, each at most once. It needs no limit: it has one entry per key, and the caches that produce the keys limit their number. */
export type WorkQueue = {
  /** Adds the key. A key in work is assigned once more after its worker is done. Ignored after shutDown. Default priority: high. */
  add(key: string, priority?: QueuePriority): void;
  /** Adds the key after `delayMs`; the earliest of several times wins. */
  addAfter(key: string, delayMs: number): void;
  /** Adds the key after the pause of the rate limits; counts as a failure of the key. A key that already waits keeps its time. */
  addRateLimited(key: string): void;
  /** Resets the failures of a key that succeeded or was deleted. A waiting key stays in the queue. */
  forget(key: string): void;
  /** Failures of the key since it was last forgotten. */
  numRequeues(key: string): number;
  /** Whether the key has failed and its retry is not due. */
  isBackingOff(key: string): boolean;
  /** Returns the next key once one is ready; undefined after shutDown or an abort. The worker must call `done` with the key. */
  get(signal?: AbortSignal): Promise<string | undefined>;
  /** Marks the key as processed. Throws a plain Error if no worker had the key, because two workers could have it otherwise. */
  done(key: string): void;
  /** Number of keys that are ready for a worker. */
  readonly length: number;
  /** Counters since the start, and current values. */
  stats(): WorkQueueStats;
  /**
   * Ignores additions from now on, and drops keys whose time has not come. With `drain`, workers still get waiting keys and those added while in work;
   * otherwise these are dropped too. Resolves when no key waits or is in work, which with `drain` needs workers. A second call may drop the keys that the first
   * one drains.
   */
  shutDown(options?: { readonly drain?: boolean }): Promise<void>;
};

type WorkQueueStats = {
  /** Calls that added a key to the queue; additions of a key that already waits are not counted. */
  readonly adds: number;
  readonly dones: number;
  readonly retries: number;
  readonly ready: number;
  readonly delayed: number;
  readonly inWork: number;
  /** Total milliseconds that the assigned keys waited for a worker. */
  readonly waitedMs: number;
};

type WorkQueueOptions = {
  readonly limits?: Partial<RateLimits>;
  /** Monotonic clock for retries. Default: the clock of the system. */
  readonly clock?: Clock;
  /** Times `addAfter`: a key is due when this clock shows its time, and its alarm decides how soon a set clock is noticed. Default: `clock`. */
  readonly dueClock?: SettableClock;
  /** Spreads the pauses of keys that failed; numbers from 0 to less than 1, default Math.random. */
  readonly random?: () => number;
};

/** Maximum consecutive keys of high priority before one of low priority, so that it is not starved. */
const HIGH_IN_A_ROW = 8;

/** Creates a rate-limited queue that never assigns one key to two workers. Throws a plain Error for limits that are not positive numbers. */
export function workQueue({ limits, clock = systemClock, dueClock = clock, random }: WorkQueueOptions = {}): WorkQueue {
  const limiter = makeRateLimiter({ ...DEFAULT_RATE_LIMITS, ...limits }, clock.now, random);
  const turns = keyTurns(clock.now);
  const idle = idleWorkers();
  const count = { adds: 0, dones: 0, retries: 0 };
  const quiet = Promise.withResolvers<undefined>();
  let open = true;
  const due = makeDelayedKeys(dueClock, (key) => add(key, "high"));
  const retries = dueClock === clock ? due : makeDelayedKeys(clock, (key) => add(key, "high"));

  /** Times at which the retries of failed keys are due. */
  const retriesAtMs = new Map<string, number>();
  /** A time that the caller has set may be later than the retry, or replace it by an earlier one. */
  const isBackingOff = (key: string): boolean => (retries.atMs(key) ?? Infinity) <= (retriesAtMs.get(key) ?? -Infinity);
  function add(key: string, priority: QueuePriority): void {
    if (!open) return;
    if (turns.put(key, priority) === "new") count.adds += 1;
    idle.serve(turns.take);
  }

  function settle(): void {
    if (open || turns.ready > 0) return;
    idle.dismiss();
    if (turns.inWork === 0) quiet.resolve(undefined);
  }

  return {
    add: (key, priority = "high") => add(key, priority),
    addAfter: (key, delayMs) => {
      if (!open) return;
      if (delayMs > 0) due.put(key, dueClock.now() + delayMs);
      else add(key, "high");
    },
    addRateLimited: (key) => {
      if (!open) return;
      count.retries += 1;
      if (isBackingOff(key)) limiter.noteFailure(key);
      else {
        const retryAtMs = clock.now() + limiter.delayMs(key);
        retriesAtMs.set(key, retryAtMs);
        retries.put(key, retryAtMs);
      }
    },
    forget: (key) => {
      limiter.forget(key);
      retriesAtMs.delete(key);
    },
    numRequeues: (key) => limiter.failures(key),
    isBackingOff,
    get: (signal) => {
      if (!open && turns.ready === 0) return Promise.resolve(undefined);
      const taken = idle.wait(signal);
      idle.serve(turns.take);
      return taken;
    },
    done: (key) => {
      turns.done(key);
      count.dones += 1;
      idle.serve(turns.take);
      settle();
    },
    get length() {
      return turns.ready;
    },
    stats: () => ({ ...count, ...turns.stats(), delayed: due.size + (retries === due ? 0 : retries.size) }),
    shutDown: async ({ drain = false } = {}) => {
      open = false;
      due.clear();
      retries.clear();
      if (!drain) turns.clear();
      settle();
      await quiet.promise;
    },
  };
}

/** Keys that are ready or in work, each once: a key added while in work becomes ready after that. */
function keyTurns(now: () => number) {
  const ready = readyKeys(now);
  const inWork = new Set<string>();
  const again = new Map<string, QueuePriority>();
  return {
    get ready() {
      return ready.size;
    },
    get inWork() {
      return inWork.size;
    },
    stats: () => ({ ...ready.stats(), inWork: inWork.size }),
    put: (key: string, priority: QueuePriority): "new" | "known" => {
      const before = inWork.has(key) ? again.get(key) : ready.priorityOf(key);
      if (before === "high" || (before !== undefined && priority === "low")) return "known";
      if (inWork.has(key)) again.set(key, priority);
      else ready.put(key, priority);
      return before === undefined ? "new" : "known";
    },
    take: (): string | undefined => {
      const key = ready.take();
      if (key !== undefined) inWork.add(key);
      return key;
    },
    done: (key: string): void => {
      if (!inWork.delete(key)) throw new Error(`done with ${key}, which no worker had`);
      const next = again.get(key);
      again.delete(key);
      if (next !== undefined) ready.put(key, next);
    },
    /** A key in work stays in work and does not become ready afterwards. */
    clear: (): void => {
      ready.clear();
      again.clear();
    },
  };
}

/** Workers that wait for a key, first come first served. */
function idleWorkers() {
  const waiting = new Set<(key: string | undefined) => void>();
  return {
    /** Resolves with an assigned key, or with undefined when the worker is dismissed or the signal is aborted. */
    wait: (signal?: AbortSignal): Promise<string | undefined> => {
      if (signal?.aborted === true) return Promise.resolve(undefined);
      return new Promise((resolve) => {
        const take = (key: string | undefined): void => {
          signal?.removeEventListener("abort", abandon);
          resolve(key);
        };
        const abandon = (): void => {
          if (waiting.delete(take)) resolve(undefined);
        };
        signal?.addEventListener("abort", abandon, { once: true });
        waiting.add(take);
      });
    },
    /** Assigns keys while both idle workers and ready keys exist. */
    serve: (nextKey: () => string | undefined): void => {
      for (const take of waiting) {
        const key = nextKey();
        if (key === undefined) return;
        waiting.delete(take);
        take(key);
      }
    },
    dismiss: (): void => {
      for (const take of waiting) take(undefined);
      waiting.clear();
    },
  };
}

type Entry = { readonly key: string; readonly priority: QueuePriority; readonly sinceMs: number };

/** Keys that are ready for a worker, first come first served within their priority. */
function readyKeys(now: () => number) {
  const known = new Map<string, Entry>();
  // A key that became high keeps its entry in the low line, where the entry is skipped.
  const lines = { high: line<Entry>(), low: line<Entry>() };
  let highInARow = 0;
  let waitedMs = 0;

  function takeFrom(priority: QueuePriority): string | undefined {
    for (let entry = lines[priority].take(); entry !== undefined; entry = lines[priority].take()) {
      if (known.get(entry.key) !== entry) continue;
      known.delete(entry.key);
      waitedMs += Math.max(0, now() - entry.sinceMs);
      highInARow = priority === "high" ? highInARow + 1 : 0;
      return entry.key;
    }
    return undefined;
  }

  return {
    get size() {
      return known.size;
    },
    stats: () => ({ ready: known.size, waitedMs }),
    priorityOf: (key: string) => known.get(key)?.priority,
    put: (key: string, priority: QueuePriority) => {
      const entry = { key, priority, sinceMs: known.get(key)?.sinceMs ?? now() };
      known.set(key, entry);
      lines[priority].put(entry);
    },
    take: () => (highInARow < HIGH_IN_A_ROW ? undefined : takeFrom("low")) ?? takeFrom("high") ?? takeFrom("low"),
    clear: () => {
      known.clear();
      lines.high = line();
      lines.low = line();
    },
  };
}

/** A line that is served in constant time: `shift` of a long array moves everything behind it. */
function line<Item>(): { put(item: Item): void; take(): Item | undefined } {
  let items: Item[] = [];
  let served = 0;
  return {
    put: (item) => void items.push(item),
    take: () => {
      if (served > 1024 && served * 2 > items.length) {
        items = items.slice(served);
        served = 0;
      }
      const item = items[served];
      if (item !== undefined) served += 1;
      return item;
    },
  };
}
