/** Versions of jobs that the API server has replaced, though the cache may still show them. */
type StaleVersions = {
  record(key: string, version: string | undefined): void;
  /** Milliseconds to wait for a newer version than this one; undefined when it is not known to be stale. */
  waitMs(key: string, version: string | undefined): number | undefined;
  /** The job is gone. */
  forget(key: string): void;
};

/** Limit of the wait: the API server may have refused for another reason. */
const MAX_WAIT_MS = 5000;

/** Remembers the newest stale version of each job. Every older one is stale, too. */
export function staleVersions(now: () => number): StaleVersions {
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

/** Kubernetes numbers versions upwards. Without a version there is nothing to compare. */
function isAfter(version: string | undefined, other: string | undefined): boolean {
  if (version === undefined || other === undefined) return version !== other;
  return BigInt(version) > BigInt(other);
}
