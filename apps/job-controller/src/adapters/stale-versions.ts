/** Versions of jobs that the API server has replaced, but the cache may still show. */
type StaleVersions = {
  record(key: string, version: string | undefined): void;
  /** Milliseconds to wait for a newer version than this one; undefined if it is not known to be stale. */
  waitMs(key: string, version: string | undefined): number | undefined;
  /** Forgets a deleted job. */
  forget(key: string): void;
};

/** Limits the wait, because the API server may have refused for another reason. */
const MAX_WAIT_MS = 5000;

/** Remembers the newest stale version of each job. Every older version is stale too. */
export function makeStaleVersions(now: () => number): StaleVersions {
  const stale = new Map<string, { readonly version: string | undefined; readonly untilMs: number }>();
  return {
    record: (key, version) => {
      const known = stale.get(key);
      const newest = known !== undefined && !isAfter(version, known.version) ? known.version : version;
      stale.set(key, { version: newest, untilMs: now() + MAX_WAIT_MS });
    },
    waitMs: (key, version) => {
      const known = stale.get(key);
      if (known === undefined) return undefined;
      const waitMs = known.untilMs - now();
      if (waitMs > 0 && !isAfter(version, known.version)) return waitMs;
      stale.delete(key);
      return undefined;
    },
    forget: (key) => void stale.delete(key),
  };
}

/** Compares versions, which Kubernetes numbers upwards. Without a version the result is false. */
function isAfter(version: string | undefined, other: string | undefined): boolean {
  if (version === undefined || other === undefined) return version !== other;
  return BigInt(version) > BigInt(other);
}
