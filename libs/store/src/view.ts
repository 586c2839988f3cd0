import { findFault } from "@muster/faults";
import type { Change, Entry } from "./watch.ts";
import type { WatchOptions } from "./bucket.ts";
import { compareKeys } from "./keys.ts";
import { callListener } from "./listeners.ts";
import { SILENCE_MS } from "./consume-in-order.ts";

/** A bucket, or a part of it, kept current in memory for decisions. */
export type View<Value> = AsyncDisposable & {
  get(key: string): Entry<Value> | undefined;
  /** The entries in key order; the same array until a change. */
  entries(): readonly Entry<Value>[];
  /** The revision of the latest received change; 0: none. */
  revision(): number;
  /** Called after each change with the key that changed. Returns the function that stops. */
  onChange(listener: (key: string) => void): () => void;
  /** Milliseconds since the view was last known to be current: 0 while the watch is alive, growing otherwise. */
  ageMs(): number;
};

export type ViewOptions = {
  readonly filter?: string;
  /** Ends the view for good, also before it has caught up; `onEnd` is not called. */
  readonly signal?: AbortSignal;
  /** Called on each interruption, with the time until the next attempt. */
  readonly onProblem?: (error: unknown, retryInMs: number) => void;
  /**
   * Called when the view stops following unexpectedly: its content stays stale, and its owner should stop. By default the process ends with the error, unless
   * the connection was closed.
   */
  readonly onEnd?: (error: unknown) => void;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
};

/** The part of a bucket that a view needs. */
export type Watchable<Value> = { readonly watch: (options: WatchOptions) => AsyncIterable<Change<Value>> };

/**
 * Resolves once the view has caught up. Follows the bucket until disposed, across reconnects and refusals: keys deleted in between are removed, and listeners
 * are called. Once the connection is closed for good the view stays unchanged, its age grows, and `onEnd` is called.
 */
export async function openView<Value>(bucket: Watchable<Value>, options: ViewOptions = {}): Promise<View<Value>> {
  const { filter, onProblem, onEnd = crashProcess, now = () => performance.now() } = options;
  const { take, close, ...read } = makeCopy<Value>();
  let interrupted = true;
  let heard = false;
  let currentAtMs = now();
  const stop = new AbortController();
  const changes = bucket.watch({
    ...(filter !== undefined && { filter }),
    ...(onProblem !== undefined && { onProblem }),
    signal: options.signal === undefined ? stop.signal : AbortSignal.any([stop.signal, options.signal]),
    onStatus: (status) => {
      heard = true;
      interrupted = status === "interrupted";
      if (!interrupted) currentAtMs = now();
    },
  });
  const caughtUp = Promise.withResolvers<undefined>();
  const follow = async (): Promise<void> => {
    for await (const change of changes) {
      if (change.kind === "synced") {
        interrupted = false;
        currentAtMs = now();
        caughtUp.resolve(undefined);
      } else take(change);
    }
  };
  const stopping = (): boolean => stop.signal.aborted || options.signal?.aborted === true;
  const following = follow().then(
    () => ({ ended: new Error("the watch ended by itself") }),
    (error: unknown) => ({ ended: error }),
  );
  void following.then(({ ended }) => {
    interrupted = true;
    caughtUp.reject(options.signal?.reason ?? ended);
  });
  await caughtUp.promise;
  void following.then(({ ended }) => {
    if (!stopping()) onEnd(ended);
  });
  return {
    ...read,
    ageMs: () => {
      const silentMs = now() - currentAtMs;
      // A process that was frozen has not yet detected the silence.
      return interrupted || (heard && silentMs > SILENCE_MS) ? silentMs : 0;
    },
    [Symbol.asyncDispose]: async () => {
      close();
      stop.abort();
      await following;
    },
  };
}

type Copy<Value> = Pick<View<Value>, "get" | "entries" | "revision" | "onChange"> & {
  take(change: Exclude<Change<Value>, { kind: "synced" }>): void;
  /** Removes the listeners. */
  close(): void;
};

/** The entries of a bucket in memory. */
function makeCopy<Value>(): Copy<Value> {
  const byKey = new Map<string, Entry<Value>>();
  const listeners = new Set<(key: string) => void>();
  let sorted: readonly Entry<Value>[] | undefined;
  let revision = 0;
  return {
    take: (change) => {
      sorted = undefined;
      const key = change.kind === "put" ? change.entry.key : change.key;
      revision = change.kind === "put" ? change.entry.revision : change.revision;
      if (change.kind === "put") byKey.set(key, change.entry);
      else byKey.delete(key);
      for (const listener of [...listeners]) callListener(() => listener(key));
    },
    close: () => listeners.clear(),
    get: (key) => byKey.get(key),
    entries: () => (sorted ??= [...byKey.values()].sort(compareKeys)),
    revision: () => revision,
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

/** Ends the process, because a stale view leads to wrong decisions: the supervisor restarts it with a current one. */
function crashProcess(error: unknown): void {
  if (findFault(error)?.code === "unavailable") return;
  queueMicrotask(() => {
    throw error;
  });
}
