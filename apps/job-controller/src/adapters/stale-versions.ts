/** Versions of jobs that the API server has replaced, though the cache may still show them. */
type StaleVersions = {
  record(key: string, version: string | undefined): void;
  /** Milliseconds to wait for another version than this one; undefined when it is not known to be stale. */
  waitMs(key: string, version: string | undefined): number | undefined;
  /** The cache has changed, or the job is gone. */
  forget(key: string): void;
};

/** Limit of the wait: the API server may have refused for another reason. */
const MAX_WAIT_MS = 5000;

/** Remembers the last stale version of each job. */
export function staleVersions(now: () => number): StaleVersions {
  const stale = new Map<string, { readonly version: string | undefined; readonly untilMs: number }>();
  return {
    record: (key, version) => void stale.set(key, { version, untilMs: now() + MAX_WAIT_MS }),
    waitMs: (key, version) => {
      const known = stale.get(key);
      if (known === undefined || known.version !== version) return undefined;
      const waitMs = known.untilMs - now();
      if (waitMs > 0) return waitMs;
      stale.delete(key);
      return undefined;
    },
    forget: (key) => void stale.delete(key),
  };
}
