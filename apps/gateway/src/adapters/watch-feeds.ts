import { pause } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import type { Route } from "@muster/gateway-api";
import type { Logger } from "@muster/service";
import { readItems, type Call } from "../api/answer-request.ts";
import type { Asked } from "../api/read-request.ts";
import { openWatchFeed, type FeedOptions, type WatchFeed } from "../api/watch-feed.ts";
import { decideReadInterval } from "../domain/decide-read-interval.ts";

/** Limits the lists that are followed concurrently, because each costs its service a list at every interval. */
const MAX_FEEDS = 64;
/** Limits the lists of one user: the eight that a page of the console follows, and as many others. */
const MAX_USER_FEEDS = 16;
const HISTORY = { maxChanges: 8192, maxCharacters: 8 * 1024 * 1024 };
/** A feed without readers stays for this time, so that a reconnecting reader finds its position. */
const LINGER_MS = 30_000;
const RETRY_MS = 10_000;

export type WatchFeeds = AsyncDisposable & {
  /** Returns the feed of this list, which stays open until it is disposed of. Throws FaultError limit_exceeded beyond the limits of lists. */
  follow(route: Route, asked: Pick<Asked, "params" | "query">, user: string): Disposable & { readonly feed: WatchFeed };
};

type Open = {
  readonly feed: WatchFeed;
  readonly stop: AbortController;
  /** One reader for each stream. */
  readonly readers: Set<{ readonly user: string }>;
  lingering: NodeJS.Timeout | undefined;
};

/** Reads a list as often as it changes, at least every `maxMs`, and when the connection is lost. */
function paced(read: FeedOptions["read"], maxMs: number, lost: () => AbortSignal): Pick<FeedOptions, "read" | "pause"> {
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

/** Follows each list once for all its watchers. */
export function openWatchFeeds({
  call,
  pollMs,
  lost,
  logger,
}: {
  readonly call: Call;
  readonly pollMs: number;
  /** Returns a signal that is aborted when the connection to the services is lost. */
  readonly lost: () => AbortSignal;
  readonly logger: Pick<Logger, "error">;
}): WatchFeeds {
  const open = new Map<string, Open>();
  const close = (key: string): void => {
    open.get(key)?.stop.abort();
    open.delete(key);
  };
  const start = (key: string, route: Route, asked: Pick<Asked, "params" | "query">): Open => {
    if (open.size >= MAX_FEEDS) {
      const idle = [...open].find(([, { readers }]) => readers.size === 0);
      if (idle === undefined) return refuse("lists that are watched", MAX_FEEDS);
      close(idle[0]);
    }
    const stop = new AbortController();
    const { feed, ended } = openWatchFeed({
      ...HISTORY,
      ...paced((signal) => readItems(route, asked, { call, signal }), pollMs, lost),
      signal: stop.signal,
    });
    const opened: Open = { feed, stop, readers: new Set(), lingering: undefined };
    open.set(key, opened);
    const report = (error: unknown): void =>
      logger.error({ err: error, path: route.path }, "the list of a watch cannot be read");
    void ended.catch(report).finally(() => {
      if (open.get(key) === opened) close(key);
    });
    return opened;
  };
  return {
    follow: (route, asked, user) => {
      const key = JSON.stringify([route.path, asked.params, Object.entries(asked.query).toSorted()]);
      const own = [...open].filter(([, { readers }]) => [...readers].some((reader) => reader.user === user));
      if (own.length >= MAX_USER_FEEDS && !own.some(([each]) => each === key))
        return refuse("lists that you watch", MAX_USER_FEEDS);
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
      for (const [key, { lingering }] of open) {
        clearTimeout(lingering);
        close(key);
      }
      return Promise.resolve();
    },
  };
}

function refuse(what: string, limit: number): never {
  return throwFault({ code: "limit_exceeded", what, limit, retryAfterMs: RETRY_MS });
}
