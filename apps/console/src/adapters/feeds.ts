import { emptyFeed, foldFeed, type FeedEvent, type FeedState } from "../domain/fold-feed.ts";
import type {
  Job,
  Lease,
  NodeRecord,
  Pool,
  Problem,
  QueueState,
  ReplicaSet,
  Reservation,
  Session,
} from "./messages.ts";
import { ask, askJson, RequestError } from "./request.ts";

export type Feeds = {
  readonly sessions: Session;
  readonly jobs: Job;
  readonly "replica-sets": ReplicaSet;
  readonly leases: Lease;
  readonly pools: Pool;
  readonly nodes: NodeRecord;
  readonly reservations: Reservation;
  readonly queues: QueueState;
};

export type FeedName = keyof Feeds;

/** The fields by which the gateway knows an item. */
const KEYS: { readonly [Name in FeedName]: (item: Feeds[Name]) => string } = {
  sessions: ({ name }) => name,
  jobs: ({ key }) => `${key?.kind ?? ""}/${key?.namespace ?? ""}/${key?.name ?? ""}`,
  "replica-sets": ({ record }) => record?.name ?? "",
  leases: ({ record }) => record?.order?.id ?? "",
  pools: ({ name }) => name,
  nodes: ({ name }) => name,
  reservations: ({ owner }) => `${owner?.kind ?? ""}/${owner?.id ?? ""}`,
  queues: ({ queue }) => queue?.name ?? "",
};

/** Changes within this time are shown together. */
const FLUSH_MS = 100;
/** A feed without a reader stays open for so long: pages change. */
const LINGER_MS = 5000;
/** Interval at which a list is read that has no stream. */
const POLL_MS = 2000;
const RETRY_MS = { first: 1000, max: 15_000 };
/** Streams of one page over HTTP/1.1: a browser opens six connections to a host, and several pages share them. */
const MAX_PLAIN_STREAMS = 2;

type Item = Feeds[FeedName];

/** One list that is followed, for all who read it. */
export type Feed<Of> = {
  readonly state: () => FeedState<Of>;
  /** Follows the list until the returned function is called. */
  readonly subscribe: (onChange: () => void) => () => void;
};

let openStreams = 0;
let onUnauthenticated: () => void = () => undefined;

/** Calls back when the gateway does not know the user any more. */
export function whenUnauthenticated(callback: () => void): void {
  onUnauthenticated = callback;
}

const feeds = new Map<FeedName, Feed<Item>>();

/** The feed of a list. All components that ask for one list share its feed. */
export function feedOf<Name extends FeedName>(name: Name): Feed<Feeds[Name]> {
  const known = feeds.get(name) ?? makeFeed(name);
  feeds.set(name, known);
  return known as unknown as Feed<Feeds[Name]>;
}

function makeFeed(name: FeedName): Feed<Item> {
  const readers = new Set<() => void>();
  let state = emptyFeed<Item>();
  let queued: FeedEvent<Item>[] = [];
  let flush: number | undefined;
  let linger: number | undefined;
  let stop: (() => void) | undefined;

  const apply = (): void => {
    flush = undefined;
    state = foldFeed(state, queued);
    queued = [];
    const isSignedOut = state.status === "unauthenticated";
    if (isSignedOut) forget();
    for (const reader of readers) reader();
    if (isSignedOut) onUnauthenticated();
  };
  const report = (event: FeedEvent<Item>): void => {
    queued.push(event);
    flush ??= window.setTimeout(apply, FLUSH_MS);
  };
  const start = (): void => {
    if (stop !== undefined || document.hidden) return;
    stop = follow(name, report);
  };
  const end = (): void => {
    stop?.();
    stop = undefined;
  };
  const forget = (): void => {
    end();
    window.clearTimeout(flush);
    flush = undefined;
    queued = [];
    state = emptyFeed();
  };
  document.addEventListener("visibilitychange", () => {
    // A hidden page leaves its connections to others.
    if (document.hidden) end();
    else if (readers.size > 0 && stop === undefined) {
      report({ kind: "stale", detail: "the page was hidden" });
      start();
    }
  });
  return {
    state: () => state,
    subscribe: (onChange) => {
      readers.add(onChange);
      window.clearTimeout(linger);
      start();
      return () => {
        readers.delete(onChange);
        if (readers.size > 0) return;
        linger = window.setTimeout(forget, LINGER_MS);
      };
    },
  };
}

type Report = (event: FeedEvent<Item>) => void;

/** Follows a list until the returned function is called, and tries again after each failure. */
function follow(name: FeedName, report: Report): () => void {
  const stop = new AbortController();
  void followUntil(name, report, stop.signal);
  return () => stop.abort();
}

async function followUntil(name: FeedName, report: Report, signal: AbortSignal): Promise<void> {
  let waitMs = RETRY_MS.first;
  while (!signal.aborted) {
    const isStream = isMultiplexed() || openStreams < MAX_PLAIN_STREAMS;
    const hasWorked = await (isStream ? stream(name, report, signal) : poll(name, report, signal));
    if (isAborted(signal)) return;
    const refused = await refusalOf(name, signal);
    if (refused !== undefined) report(refused);
    waitMs = hasWorked ? RETRY_MS.first : Math.min(waitMs * 2, RETRY_MS.max);
    await pause(waitMs, signal);
  }
}

/** A function, because the compiler does not expect that the answer changes while the caller waits. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

/** Over HTTP/2 all requests share one connection. */
function isMultiplexed(): boolean {
  const [page] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return /^h[23]/.test(page?.nextHopProtocol ?? "");
}

/** Reads server-sent events until the browser gives up or the gateway ends them. True: it has received the list. */
async function stream(name: FeedName, report: Report, signal: AbortSignal): Promise<boolean> {
  openStreams += 1;
  const source = new EventSource(`/v1/${name}?watch=true`);
  const { promise: ended, resolve: end } = Promise.withResolvers<undefined>();
  const keyOf = KEYS[name] as (item: Item) => string;
  const dataOf = (event: Event): unknown => JSON.parse((event as MessageEvent<string>).data);
  let hasWorked = false;
  const put = (event: Event): void => {
    const item = dataOf(event) as Item;
    report({ kind: "put", key: keyOf(item), item });
  };
  const on: Readonly<Record<string, (event: Event) => void>> = {
    open: () => report({ kind: "opened" }),
    reset: () => report({ kind: "reset" }),
    added: put,
    modified: put,
    deleted: (event) => report({ kind: "deleted", key: keyOf(dataOf(event) as Item) }),
    synced: () => {
      hasWorked = true;
      report({ kind: "synced" });
    },
    stale: (event) => report({ kind: "stale", detail: (dataOf(event) as Problem).detail }),
    closed: (event) => {
      report(refusedBy(dataOf(event) as Problem));
      end(undefined);
    },
    error: () => {
      report({ kind: "stale", detail: "the connection to the gateway is lost" });
      // Otherwise the browser connects again by itself, with the id of the last event.
      if (source.readyState === EventSource.CLOSED) end(undefined);
    },
  };
  for (const [kind, handle] of Object.entries(on)) source.addEventListener(kind, handle);
  signal.addEventListener("abort", () => end(undefined), { once: true });
  await ended;
  source.close();
  openStreams -= 1;
  return hasWorked;
}

/** Reads the list at an interval until that fails. True: it has worked. */
async function poll(name: FeedName, report: Report, signal: AbortSignal): Promise<boolean> {
  const keyOf = KEYS[name] as (item: Item) => string;
  let hasWorked = false;
  let shown = "";
  while (!signal.aborted) {
    try {
      const { items, version } = await readList(name, signal);
      if (version !== shown || version === "") {
        report({ kind: "reset" });
        for (const item of items) report({ kind: "put", key: keyOf(item), item });
      }
      report({ kind: "synced" });
      shown = version;
      hasWorked = true;
    } catch (error) {
      if (error instanceof RequestError) report({ kind: "stale", detail: error.message });
      return hasWorked;
    }
    await pause(POLL_MS, signal);
    if (openStreams < MAX_PLAIN_STREAMS) return hasWorked;
  }
  return hasWorked;
}

/** Every page of a list. The browser's cache keeps unchanged ones. */
async function readList(
  name: FeedName,
  signal: AbortSignal,
): Promise<{ readonly items: readonly Item[]; readonly version: string }> {
  const items: Item[] = [];
  const tags: string[] = [];
  let from = "";
  do {
    const reply = await ask(`/v1/${name}?limit=500${from === "" ? "" : `&continue=${encodeURIComponent(from)}`}`, {
      signal,
    });
    tags.push(reply.headers.get("etag") ?? "");
    const page = (await reply.json()) as { readonly items: readonly Item[]; readonly continue: string };
    items.push(...page.items);
    from = page.continue;
  } while (from !== "");
  return { items, version: tags.includes("") ? "" : tags.join(" ") };
}

/** Why the gateway does not serve the list; undefined: it does. An EventSource does not show the status. */
async function refusalOf(name: FeedName, signal: AbortSignal): Promise<FeedEvent<Item> | undefined> {
  try {
    await askJson(`/v1/${name}?limit=1`, { signal });
    return undefined;
  } catch (error) {
    return error instanceof RequestError ? refusedBy(error.problem) : undefined;
  }
}

function refusedBy({ status, code, detail }: Problem): FeedEvent<Item> {
  if (status === 401 || code === "UNAUTHENTICATED") return { kind: "refused", status: "unauthenticated", detail };
  if (status === 403 || code === "FORBIDDEN") return { kind: "refused", status: "forbidden", detail };
  return { kind: "stale", detail };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = window.setTimeout(() => resolve(undefined), ms);
  signal.addEventListener("abort", () => resolve(undefined), { once: true });
  await promise;
  window.clearTimeout(timer);
}
