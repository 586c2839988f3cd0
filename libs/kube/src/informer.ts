import { setTimeout as sleep } from "node:timers/promises";
import { backoffMs } from "@muster/backoff";
import { FaultError } from "@muster/faults";
import { makeCache, type Cache, type CacheChange, type IndexBy } from "./cache.ts";
import { isGone, KubeError, MalformedAnswerError, retryAfterMs } from "./kube-error.ts";
import type { KubeObject, ListWatch } from "./list-watch.ts";

/** A cache of one resource that follows the API server for ever, and an honest word about how fresh it is. */
export type Informer<Kept, Index extends string = never> = AsyncDisposable & {
  /** Resolves once the first list is complete; rejects with FaultError cancelled when disposed before that. */
  readonly synced: Promise<void>;
  get(key: string): Kept | undefined;
  list(): readonly Kept[];
  /** Those for which the index gives this value, in no particular order; as new as `get`, also within onChange. Takes as long as the answer, not as the cache. */
  byIndex(name: Index, value: string): readonly Kept[];
  /** The resource version up to which the cache has everything; undefined before the first list. */
  resourceVersion(): string | undefined;
  /** `before` is undefined for an addition, `after` for a deletion; called in order per object. Returns the way to stop. */
  onChange(
    listener: (change: {
      readonly key: string;
      readonly before: Kept | undefined;
      readonly after: Kept | undefined;
    }) => void,
  ): () => void;
  /** Milliseconds since the API server last said anything (an event, a bookmark, a list, the orderly end of a watch). */
  ageMs(): number;
  /** Milliseconds since the request for the last complete list was sent: everything that was true by then is in the cache. Infinity before the first one. */
  listAgeMs(): number;
};

export type InformerOptions<Object extends KubeObject, Kept, Index extends string = never> = {
  readonly source: ListWatch<Object>;
  /** What the cache keeps of an object; everything else is dropped at once. */
  readonly project: (object: Object) => Kept;
  /** Ways to find what is kept again: `{ owner: (pod) => [pod.ownerUid] }`. Each must depend on nothing but what it is given. */
  readonly indexes?: Readonly<Record<Index, IndexBy<Kept>>>;
  /** Objects a page; default 500. */
  readonly pageSize?: number;
  /** Full list again this often, whatever the watch says; default 10 minutes. */
  readonly relistEveryMs?: number;
  /** Told about every failure; the informer goes on by itself. */
  readonly onError?: (error: unknown, retryInMs: number) => void;
  readonly now?: () => number;
  /** Pauses and limits in time; the defaults are for API servers in production. */
  readonly timing?: Partial<InformerTiming>;
};

export type InformerTiming = {
  /** Each watch asks the server to end it after a time between these, so that replicas do not come back together. */
  readonly watchMinSeconds: number;
  readonly watchMaxSeconds: number;
  /** A watch that says nothing for longer than its time and this margin is cut: the connection is dead. */
  readonly silenceMarginMs: number;
  /** A watch that says nothing for this long is cut, too: a server sends bookmarks about once a minute. One that sends none is only asked more often. */
  readonly silenceMaxMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
};

const DEFAULT_TIMING: InformerTiming = {
  watchMinSeconds: 300,
  watchMaxSeconds: 600,
  silenceMarginMs: 15_000,
  silenceMaxMs: 150_000,
  backoffMinMs: 500,
  backoffMaxMs: 30_000,
};

const PAGE_SIZE = 500;
const RELIST_EVERY_MS = 10 * 60_000;
/** A watch that ended in good order after less than this without a word counts as a failure, or a server that ends them at once would be asked without pause. */
const SHORT_WATCH_MS = 1000;
/** After this many failures in a row the resource version itself is suspected (a server restored from a backup never reaches it), and a list is made. */
const FAILURES_BEFORE_LIST = 3;

/** Starts following. Never stops by itself: ends and errors of any kind lead to a new watch or a new list, with back-off. Keys are `namespace/name` or `name`. */
export function informer<Object extends KubeObject, Kept, Index extends string = never>(
  options: InformerOptions<Object, Kept, Index>,
): Informer<Kept, Index> {
  const stop = new AbortController();
  const listeners = new Set<(change: CacheChange<Kept>) => void>();
  const first = Promise.withResolvers<undefined>();
  // Whoever never awaits `synced` must not be ended by its rejection.
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
      for (const change of changes) tell(listeners, change, report);
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

/** A listener that throws has a defect of its own; the others, and the cache, go on. */
function tell<Kept>(
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
  /** The server said something. */
  readonly heard: () => void;
  /** A list that was asked for then is complete. */
  readonly listed: (askedAtMs: number) => void;
  /** The cache has everything up to this resource version; these are the changes that brought it there. */
  readonly advance: (changes: readonly CacheChange<Kept>[], to: string) => void;
};

/** Where the reflector stands. `at` is undefined when only a list can help. */
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
      if (stopping(signal)) return;
      const pauseMs = pauseAfter(error, position, timing);
      if (needsList(error, position)) position.at = undefined;
      report(error, pauseMs);
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** Counts the failure and says how long to wait. The first 410 costs no pause: the server is well, only our version is old. */
function pauseAfter(error: unknown, position: Position, timing: InformerTiming): number {
  position.failures += 1;
  if (isGone(error) && position.failures === 1) return 0;
  const limits = { firstMs: timing.backoffMinMs, maxMs: timing.backoffMaxMs };
  const asked = error instanceof KubeError ? retryAfterMs(error) : undefined;
  return Math.max(asked ?? 0, backoffMs(position.failures, limits));
}

function needsList(error: unknown, position: Position): boolean {
  if (isGone(error) || error instanceof MalformedAnswerError || error instanceof WatchErrorEvent) return true;
  return position.failures >= FAILURES_BEFORE_LIST;
}

/** The server reported an error inside a watch: what it told so far stands, what it would have told is lost. */
class WatchErrorEvent extends KubeError {}

/** Lists everything and makes the cache equal to it. An expired token starts the list anew, then without pages, so that a slow reader of a busy server ends at some time. */
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

/** One watch to its end. Returns when the server ended it in good order, throws for everything else. */
async function watchOnce<Object extends KubeObject, Kept>(
  following: Following<Object, Kept>,
  position: Position,
  from: string,
): Promise<void> {
  const { source, timing, signal, now, heard } = following;
  const untilRelistMs = following.relistEveryMs - (now() - position.listedAtMs);
  const spread = timing.watchMinSeconds + Math.random() * (timing.watchMaxSeconds - timing.watchMinSeconds);
  const timeoutSeconds = Math.max(1, Math.ceil(Math.min(spread, untilRelistMs / 1000)));
  const silence = new AbortController();
  const silentMs = Math.min(timeoutSeconds * 1000 + timing.silenceMarginMs, timing.silenceMaxMs);
  const watchdog = setTimeout(() => {
    silence.abort(new DOMException(`the watch said nothing for ${silentMs} ms`, "TimeoutError"));
  }, silentMs);
  const startedMs = now();
  let words = 0;
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
      words += 1;
    }
  } catch (error) {
    // What the transport throws for an abort hides why.
    throw silence.signal.aborted ? silence.signal.reason : error;
  } finally {
    clearTimeout(watchdog);
  }
  // A watch that ends in good order has told everything up to its end.
  heard();
  if (words > 0 || now() - startedMs >= SHORT_WATCH_MS) position.failures = 0;
  else if (!signal.aborted) throw new Error("the server ended the watch at once");
}

function ingest<Object extends KubeObject, Kept>(
  { cache, advance }: Following<Object, Kept>,
  event: { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"; readonly object: Object },
  before: string,
): string {
  const at = event.object.metadata?.resourceVersion;
  if (at === undefined || at === "") throw new MalformedAnswerError("an event without a resource version");
  // A server that was rebuilt or restored counts from lower versions, and may hold back what it thinks we have seen.
  if (Number(at) < Number(before)) throw new MalformedAnswerError(`versions went back from ${before} to ${at}`);
  if (event.type === "BOOKMARK") advance([], at);
  else advance(event.type === "DELETED" ? cache.remove(event.object) : cache.put(event.object), at);
  return at;
}

/** Asked after an await: the compiler believes that a signal found unaborted stays so. */
function stopping(signal: AbortSignal): boolean {
  return signal.aborted;
}
