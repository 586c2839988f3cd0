import { setTimeout as sleep } from "node:timers/promises";
import { computeBackoffMs } from "@muster/backoff";
import { FaultError } from "@muster/faults";
import { makeCache, type Cache, type CacheChange, type IndexBy } from "./cache.ts";
import { isGone, KubeError, MalformedAnswerError, retryAfterMs } from "./kube-error.ts";
import type { KubeObject, ListWatch } from "./list-watch.ts";

/** A cache of one resource that follows the API server until disposed, and states how fresh it is. */
export type Informer<Kept, Index extends string = never> = AsyncDisposable & {
  /** Resolves once the first list is complete; rejects with FaultError cancelled when disposed before that. */
  readonly synced: Promise<void>;
  get(key: string): Kept | undefined;
  list(): readonly Kept[];
  /** Returns the objects with this value of the index, unordered; as new as `get`, also within onChange. The cost grows with the result, not with the cache. */
  byIndex(name: Index, value: string): readonly Kept[];
  /** The cache has every change up to this resource version; undefined before the first list. */
  resourceVersion(): string | undefined;
  /** Adds a listener. `before` is undefined for an addition, `after` for a deletion; called in order per object. Returns the function that unsubscribes. */
  onChange(
    listener: (change: {
      readonly key: string;
      readonly before: Kept | undefined;
      readonly after: Kept | undefined;
    }) => void,
  ): () => void;
  /** Milliseconds since the API server last answered: an event, a bookmark, a list, or the orderly end of a watch. */
  ageMs(): number;
  /** Milliseconds since the request for the last complete list was sent: the cache has everything that was true by then. Infinity before the first list. */
  listAgeMs(): number;
};

export type InformerOptions<Object extends KubeObject, Kept, Index extends string = never> = {
  readonly source: ListWatch<Object>;
  /** Extracts the part of an object that the cache keeps; the rest is dropped immediately. */
  readonly project: (object: Object) => Kept;
  /** Indexes of cached objects: `{ owner: (pod) => [pod.ownerUid] }`. Each must depend on its argument alone. */
  readonly indexes?: Readonly<Record<Index, IndexBy<Kept>>>;
  /** Objects per page; default 500. */
  readonly pageSize?: number;
  /** Interval of full lists, even while the watch works; default 10 minutes. */
  readonly relistEveryMs?: number;
  /** Called for every failure; the informer continues by itself. */
  readonly onError?: (error: unknown, retryInMs: number) => void;
  readonly now?: () => number;
  /** Pauses and time limits; the defaults are for API servers in production. */
  readonly timing?: Partial<InformerTiming>;
};

export type InformerTiming = {
  /** Bounds of the random duration of each watch, so that replicas do not reconnect together. */
  readonly minWatchSeconds: number;
  readonly maxWatchSeconds: number;
  /** A watch that is silent for longer than its duration plus this margin is cut: the connection is dead. */
  readonly silenceMarginMs: number;
  /**
   * A watch that is silent for this long is also cut, because a server sends bookmarks about once a minute. A server without bookmarks only gets more watches.
   */
  readonly maxSilenceMs: number;
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
};

const DEFAULT_TIMING: InformerTiming = {
  minWatchSeconds: 300,
  maxWatchSeconds: 600,
  silenceMarginMs: 15_000,
  maxSilenceMs: 150_000,
  minBackoffMs: 500,
  maxBackoffMs: 30_000,
};

const PAGE_SIZE = 500;
const RELIST_EVERY_MS = 10 * 60_000;
/**
 * A watch without events that ends normally before this time counts as a failure. Otherwise a server that ends watches immediately would get requests without
 * pause.
 */
const SHORT_WATCH_MS = 1000;
/**
 * After this many consecutive failures the informer lists, because the resource version itself may be wrong: a server restored from a backup never reaches it.
 */
const FAILURES_BEFORE_LIST = 3;

/** Starts following. Every end and error leads to a new watch or a new list, with back-off. Keys are `namespace/name` or `name`. */
export function openInformer<Object extends KubeObject, Kept, Index extends string = never>(
  options: InformerOptions<Object, Kept, Index>,
): Informer<Kept, Index> {
  const stop = new AbortController();
  const listeners = new Set<(change: CacheChange<Kept>) => void>();
  const first = Promise.withResolvers<undefined>();
  // A caller that never awaits `synced` must not crash by its rejection.
  first.promise.catch(() => undefined);
  const now = options.now ?? (() => performance.now());
  let heardAt = now();
  let version: string | undefined;
  let listedAtMs = -Infinity;
  const report = options.onError ?? (() => undefined);
  const cache = makeCache<Object, Kept>(options.project, (error) => report(error, 0), options.indexes);

  const running = follow({
    source: options.source,
    cache,
    timing: { ...DEFAULT_TIMING, ...options.timing },
    pageSize: options.pageSize ?? PAGE_SIZE,
    relistEveryMs: options.relistEveryMs ?? RELIST_EVERY_MS,
    signal: stop.signal,
    now,
    report,
    heard: () => (heardAt = now()),
    listed: (askedAtMs) => (listedAtMs = askedAtMs),
    advance: (changes, to) => {
      for (const change of changes) notifyListeners(listeners, change, report);
      version = to;
      first.resolve(undefined);
    },
  });

  return {
    synced: first.promise,
    get: (key) => cache.get(key),
    list: () => cache.list(),
    byIndex: (name, value) => cache.byIndex(name, value),
    resourceVersion: () => version,
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    ageMs: () => now() - heardAt,
    listAgeMs: () => now() - listedAtMs,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      first.reject(new FaultError({ code: "cancelled", operation: "the first list" }));
      await running;
    },
  };
}

/** A listener that throws has a defect of its own; the other listeners and the cache continue. */
function notifyListeners<Kept>(
  listeners: ReadonlySet<(change: CacheChange<Kept>) => void>,
  change: CacheChange<Kept>,
  report: (error: unknown, retryInMs: number) => void,
): void {
  for (const listener of listeners) {
    try {
      listener(change);
    } catch (error) {
      report(error, 0);
    }
  }
}

type Following<Object extends KubeObject, Kept> = {
  readonly source: ListWatch<Object>;
  readonly cache: Cache<Object, Kept>;
  readonly timing: InformerTiming;
  readonly pageSize: number;
  readonly relistEveryMs: number;
  readonly signal: AbortSignal;
  readonly now: () => number;
  readonly report: (error: unknown, retryInMs: number) => void;
  /** Called on each answer of the server. */
  readonly heard: () => void;
  /** Called when the list that was requested at this time is complete. */
  readonly listed: (askedAtMs: number) => void;
  /** Called with the changes that bring the cache to this resource version. */
  readonly advance: (changes: readonly CacheChange<Kept>[], to: string) => void;
};

/** The state of the reflector. `at` is undefined when a list is needed. */
type Position = { at: string | undefined; listedAtMs: number; failures: number };

async function follow<Object extends KubeObject, Kept>(following: Following<Object, Kept>): Promise<void> {
  const { signal, now, timing, report } = following;
  const position: Position = { at: undefined, listedAtMs: 0, failures: 0 };
  while (!signal.aborted) {
    try {
      if (position.at === undefined || now() - position.listedAtMs >= following.relistEveryMs) {
        position.at = await relist(following);
        position.listedAtMs = now();
      }
      await watchOnce(following, position, position.at);
    } catch (error) {
      if (isStopped(signal)) return;
      const pauseMs = pauseAfter(error, position, timing);
      if (needsList(error, position)) position.at = undefined;
      report(error, pauseMs);
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** Counts the failure and returns the pause. The first 410 needs none: the server works, only our version is old. */
function pauseAfter(error: unknown, position: Position, timing: InformerTiming): number {
  position.failures += 1;
  if (isGone(error) && position.failures === 1) return 0;
  const limits = { firstMs: timing.minBackoffMs, maxMs: timing.maxBackoffMs };
  const asked = error instanceof KubeError ? retryAfterMs(error) : undefined;
  return Math.max(asked ?? 0, computeBackoffMs(position.failures, limits));
}

function needsList(error: unknown, position: Position): boolean {
  if (isGone(error) || error instanceof MalformedAnswerError || error instanceof WatchErrorEvent) return true;
  return position.failures >= FAILURES_BEFORE_LIST;
}

/** The server reported an error inside a watch. The events before it are valid; later ones are lost. */
class WatchErrorEvent extends KubeError {}

/**
 * Lists everything and makes the cache equal to it. An expired token restarts the list; the second restart has no pages, so that a slow reader of a busy server
 * finishes.
 */
async function relist<Object extends KubeObject, Kept>(following: Following<Object, Kept>): Promise<string> {
  for (const limit of [following.pageSize, following.pageSize, 0]) {
    try {
      return await listAll(following, limit);
    } catch (error) {
      if (!isGone(error) || limit === 0) throw error;
      following.report(error, 0);
    }
  }
  throw new Error("unreachable: the last attempt returns or throws");
}

async function listAll<Object extends KubeObject, Kept>(
  { source, cache, signal, now, heard, listed, advance }: Following<Object, Kept>,
  limit: number,
): Promise<string> {
  const askedAtMs = now();
  const replacement = cache.replace();
  let token: string | undefined;
  for (;;) {
    const page = await source.list({ limit, signal, ...(token === undefined ? {} : { continue: token }) });
    heard();
    replacement.add(page.items);
    token = page.continue;
    if (token === undefined) {
      listed(askedAtMs);
      advance(replacement.finish(), page.resourceVersion);
      return page.resourceVersion;
    }
  }
}

/** Runs one watch. Returns when the server ends it normally, throws otherwise. */
async function watchOnce<Object extends KubeObject, Kept>(
  following: Following<Object, Kept>,
  position: Position,
  from: string,
): Promise<void> {
  const { source, timing, signal, now, heard } = following;
  const untilRelistMs = following.relistEveryMs - (now() - position.listedAtMs);
  const spread = timing.minWatchSeconds + Math.random() * (timing.maxWatchSeconds - timing.minWatchSeconds);
  const timeoutSeconds = Math.max(1, Math.ceil(Math.min(spread, untilRelistMs / 1000)));
  const silence = new AbortController();
  const silentMs = Math.min(timeoutSeconds * 1000 + timing.silenceMarginMs, timing.maxSilenceMs);
  let events = 0;
  const watchdog = setTimeout(() => {
    // The timers of a process that was held up run before it reads the events that have arrived meanwhile.
    const read = events;
    setImmediate(() => {
      if (events === read) silence.abort(new DOMException(`the watch was silent for ${silentMs} ms`, "TimeoutError"));
    });
  }, silentMs);
  const startedMs = now();
  try {
    const watching = AbortSignal.any([signal, silence.signal]);
    for await (const event of source.watch({ resourceVersion: from, timeoutSeconds, signal: watching })) {
      if (event.type === "ERROR") {
        throw new WatchErrorEvent("watching", event.object.code ?? 500, event.object);
      }
      heard();
      watchdog.refresh();
      position.at = ingest(following, event, position.at ?? from);
      position.failures = 0;
      events += 1;
    }
  } catch (error) {
    // The error that the transport throws for an abort hides the reason.
    throw silence.signal.aborted ? silence.signal.reason : error;
  } finally {
    clearTimeout(watchdog);
  }
  // A watch that ends normally has sent every event.
  heard();
  if (events > 0 || now() - startedMs >= SHORT_WATCH_MS) position.failures = 0;
  else if (!signal.aborted) throw new Error("the server ended the watch immediately");
}

function ingest<Object extends KubeObject, Kept>(
  { cache, advance }: Following<Object, Kept>,
  event: { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"; readonly object: Object },
  before: string,
): string {
  const at = event.object.metadata?.resourceVersion;
  if (at === undefined || at === "") throw new MalformedAnswerError("an event without a resource version");
  // A server that was rebuilt or restored counts from lower versions, and may withhold events that it believes were sent.
  if (Number(at) < Number(before)) throw new MalformedAnswerError(`versions went back from ${before} to ${at}`);
  if (event.type === "BOOKMARK") advance([], at);
  else advance(event.type === "DELETED" ? cache.remove(event.object) : cache.put(event.object), at);
  return at;
}

/** A function, because the compiler assumes that a signal is unchanged after an await. */
function isStopped(signal: AbortSignal): boolean {
  return signal.aborted;
}
