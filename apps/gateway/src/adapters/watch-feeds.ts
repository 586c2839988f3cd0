import { pause } from "@muster/backoff";
import { throwFault, type Fault } from "@muster/faults";
import type { Route } from "@muster/gateway-api";
import type { Logger } from "@muster/service";
import { readItems, type Call } from "../api/answer-request.ts";
import type { Asked } from "../api/read-request.ts";
import { FeedRefused, openWatchFeed, type FeedOptions, type WatchFeed } from "../api/watch-feed.ts";
import { decideFeedRoom, type FeedRoom } from "../domain/decide-feed-room.ts";
import type { Items } from "../domain/plan-changes.ts";
import { decideReadInterval } from "../domain/decide-read-interval.ts";

/** Maximum lists that are followed concurrently, because each costs its service a list call at every interval. */
const MAX_FEEDS = 64;
/** Maximum number of lists per user: twice the eight lists that a page of the console follows. */
const MAX_USER_FEEDS = 16;
const HISTORY = { maxChanges: 8192, maxCharacters: 8 * 1024 * 1024 };
/** Time for which a feed without readers stays, so that a reconnecting reader finds its position. */
const LINGER_MS = 30_000;
const RETRY_MS = 10_000;

/** Names of the two limits: of one user, and of all clients of this process together. */
const OWN = "bytes of lists that you watch";
const ALL = "bytes of lists that are watched";
/** Key of the limit of all clients; no user has this name. */
const EVERYONE = "";

export type WatchFeeds = AsyncDisposable & {
  readonly count: number;
  /** The bytes of all lists and of their latest changes, as JSON. */
  readonly bytes: number;
  /** Returns the feed of this list, which stays open until it is disposed of. Throws FaultError limit_exceeded beyond the limits of lists. */
  follow(route: Route, asked: Pick<Asked, "params" | "query">, user: string): Disposable & { readonly feed: WatchFeed };
};

type Open = {
  readonly feed: WatchFeed;
  readonly stop: AbortController;
  /** The size of the items as JSON; during a new read, the larger of the old and the new size. */
  bytes: number;
  /** One reader for each stream. */
  readonly readers: Set<{ readonly user: string }>;
  lingering: NodeJS.Timeout | undefined;
};

/** Reads a list as often as it changes, at least every `maxMs`, and when the connection is lost. */
function limitReadRate(
  read: FeedOptions["read"],
  maxMs: number,
  lost: () => AbortSignal,
): Pick<FeedOptions, "read" | "pause"> {
  let readMs = 0;
  let intervalMs = 0;
  return {
    read: async (signal) => {
      const beganMs = performance.now();
      try {
        return await read(signal);
      } finally {
        readMs = performance.now() - beganMs;
      }
    },
    pause: (changes, signal) => {
      intervalMs = decideReadInterval({ changes, readMs, intervalMs }, maxMs);
      const gone = lost();
      // The next read reports the loss. While the connection is lost, the interval continues.
      return pause(intervalMs, gone.aborted ? signal : AbortSignal.any([signal, gone]));
    },
  };
}

export type WatchFeedParts = {
  readonly call: Call;
  readonly pollMs: number;
  /** Limits the bytes of all lists. */
  readonly maxBytes: number;
  /** Returns a signal that is aborted when the connection to the services is lost. */
  readonly lost: () => AbortSignal;
  readonly logger: Pick<Logger, "error" | "warn">;
};

/** Follows each list once for all its watchers. */
export function openWatchFeeds({ call, pollMs, maxBytes, lost, logger }: WatchFeedParts): WatchFeeds {
  const open = new Map<string, Open>();
  const close = (key: string): void => {
    clearTimeout(open.get(key)?.lingering);
    open.get(key)?.stop.abort();
    open.delete(key);
  };
  /** Closes lists without readers while other lists need their place. */
  const closeIdle = (isNeeded: () => boolean): void => {
    for (const [key, { readers }] of open) {
      if (!isNeeded()) return;
      if (readers.size === 0) close(key);
    }
  };
  const bytes = limitBytes(open, { maxBytes, logger, closeIdle });
  const start = (key: string, route: Route, asked: Pick<Asked, "params" | "query">): Open => {
    closeIdle(() => open.size >= MAX_FEEDS);
    if (open.size >= MAX_FEEDS) return throwFault(limited("lists that are watched", MAX_FEEDS));
    const stop = new AbortController();
    const read = async (signal: AbortSignal): Promise<Items> => {
      let readBytes = 0;
      const onBytes = (sum: number): void => bytes.grow(opened, route.path, (readBytes = sum));
      const items = await readItems(route, asked, { call, signal, onBytes });
      opened.bytes = readBytes;
      return items;
    };
    const { feed, ended } = openWatchFeed({ ...HISTORY, ...limitReadRate(read, pollMs, lost), signal: stop.signal });
    const opened: Open = { feed, stop, bytes: 0, readers: new Set(), lingering: undefined };
    open.set(key, opened);
    const report = (error: unknown): void =>
      logger.error({ err: error, path: route.path }, "the list of a watch cannot be read");
    void ended.catch(report).finally(() => {
      if (open.get(key) === opened) close(key);
    });
    return opened;
  };
  return {
    get count() {
      return open.size;
    },
    get bytes() {
      return bytesOf(open.values());
    },
    follow: (route, asked, user) => {
      const key = JSON.stringify([route.path, asked.params, Object.entries(asked.query).toSorted()]);
      const own = listsOf(open, user);
      if (own.size >= MAX_USER_FEEDS && !own.has(key)) throwFault(limited("lists that you watch", MAX_USER_FEEDS));
      if (!open.has(key)) bytes.require(user);
      const found = open.get(key) ?? start(key, route, asked);
      clearTimeout(found.lingering);
      const reader = { user };
      found.readers.add(reader);
      return {
        feed: found.feed,
        [Symbol.dispose]: () => {
          found.readers.delete(reader);
          if (found.readers.size === 0)
            found.lingering = setTimeout(() => {
              if (open.get(key) === found) close(key);
            }, LINGER_MS).unref();
        },
      };
    },
    [Symbol.asyncDispose]: () => {
      for (const key of open.keys()) close(key);
      return Promise.resolve();
    },
  };
}

/** Returns the lists that the user watches. */
function listsOf(open: ReadonlyMap<string, Open>, user: string): ReadonlyMap<string, Open> {
  return new Map([...open].filter(([, { readers }]) => [...readers].some((reader) => reader.user === user)));
}

function usersOf({ readers }: Open): ReadonlySet<string> {
  return new Set([...readers].map(({ user }) => user));
}

function sizeOf({ feed, bytes }: Open): number {
  return bytes + feed.keptCharacters;
}

function bytesOf(lists: Iterable<Open>): number {
  let sum = 0;
  for (const each of lists) sum += sizeOf(each);
  return sum;
}

/** Sums the bytes of the lists that each user watches in one pass: a list may have a thousand watchers, and the sum is computed for each of its pages. */
function bytesByUser(lists: Iterable<Open>): ReadonlyMap<string, number> {
  const bytes = new Map<string, number>();
  for (const each of lists) for (const user of usersOf(each)) bytes.set(user, (bytes.get(user) ?? 0) + sizeOf(each));
  return bytes;
}

/** Limits the bytes of lists. A user over a limit may start no list for RETRY_MS, so that refused lists are not read. */
function limitBytes(
  open: ReadonlyMap<string, Open>,
  {
    maxBytes,
    logger,
    closeIdle,
  }: Pick<WatchFeedParts, "maxBytes" | "logger"> & { readonly closeIdle: (isNeeded: () => boolean) => void },
) {
  const full = new Map<string, { readonly fault: Fault; readonly untilMs: number }>();
  const refuse = (
    { of, limitBytes: limit }: FeedRoom & { readonly kind: "refused" },
    users: readonly string[],
  ): Fault => {
    const nowMs = performance.now();
    for (const [user, { untilMs }] of full) if (untilMs <= nowMs) full.delete(user);
    const fault = limited(of === "user" ? OWN : ALL, limit);
    for (const user of of === "user" ? users : [EVERYONE]) full.set(user, { fault, untilMs: nowMs + RETRY_MS });
    return fault;
  };
  return {
    /** Records the bytes of a list that were read, and throws FeedRefused if they exceed a limit. */
    grow: (opened: Open, path: string, readBytes: number): void => {
      opened.bytes = Math.max(opened.bytes, readBytes);
      closeIdle(() => bytesOf(open.values()) > maxBytes);
      if (opened.stop.signal.aborted) return;
      const users = [...usersOf(opened)];
      const bytes = bytesByUser(open.values());
      const readerBytes = users.map((user) => bytes.get(user) ?? 0);
      const room = decideFeedRoom({ totalBytes: bytesOf(open.values()), readerBytes }, maxBytes);
      if (room.kind === "fits") return;
      const { limitBytes: limit } = room;
      logger.warn({ path, users, readBytes, limitBytes: limit }, "a list to watch exceeds the limit of bytes");
      throw new FeedRefused(refuse(room, users));
    },
    /** Throws FaultError limit_exceeded if the user may start no list now. */
    require: (user: string): void => {
      for (const each of [user, EVERYONE]) {
        const known = full.get(each);
        if (known !== undefined && known.untilMs > performance.now()) throwFault(known.fault);
      }
    },
  };
}

function limited(what: string, limit: number): Fault {
  return { code: "limit_exceeded", what, limit, retryAfterMs: RETRY_MS };
}
