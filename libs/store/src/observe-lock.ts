import type { Bucket } from "./bucket.ts";
import type { LockRecord, ObservedLock } from "./decide-lock.ts";
import { openListeners } from "./listeners.ts";

/** Follows one lock through a watch. */
export type LockObserver = AsyncDisposable & {
  /** Undefined until the watch has caught up for the first time. */
  current(): ObservedLock | undefined;
  /** Reads the lock after a write has shown that the watch is behind. */
  refresh(): Promise<void>;
  /** Resolves at the next change of the lock or of `failure`, after the time, or when the signal is aborted. */
  changed(signal: AbortSignal, withinMs?: number): Promise<void>;
  onChange(listener: () => void): () => void;
  /** The reason why the watch has ended; undefined while it runs. */
  failure(): { readonly error: unknown } | undefined;
};

export function observeLock(bucket: Bucket<LockRecord>, lock: string, now: () => number): LockObserver {
  const stop = new AbortController();
  const listeners = openListeners();
  let current: ObservedLock | undefined;
  let failure: { readonly error: unknown } | undefined;
  const see = (record: LockRecord | undefined, revision: number): void => {
    // A watch that is behind does not override a newer read.
    if (current !== undefined && revision <= current.revision) return;
    current = { record, revision, seenAtMs: now() };
    listeners.notify();
  };
  const follow = async (): Promise<void> => {
    for await (const change of bucket.watch({ filter: lock, signal: stop.signal })) {
      if (change.kind === "put") see(change.entry.value, change.entry.revision);
      else if (change.kind === "delete") see(undefined, change.revision);
      else if (current === undefined) see(undefined, 0);
    }
  };
  const following = follow().catch((error: unknown) => {
    failure = { error };
    listeners.notify();
  });
  return {
    current: () => current,
    refresh: async () => {
      const entry = await bucket.get(lock);
      if (entry !== undefined) see(entry.value, entry.revision);
      // The observed record was replaced and then deleted.
      else if (current?.record !== undefined) see(undefined, current.revision + 1);
    },
    changed: (signal, withinMs) => (failure === undefined ? listeners.changed(signal, withinMs) : Promise.resolve()),
    onChange: listeners.onChange,
    failure: () => failure,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await following;
    },
  };
}
