import { versionOf, type JobRow } from "./read-job.ts";

/** Rows that this process has written and its cache may not show yet. */
type OwnWrites = {
  /** The newer one of the cached row and our own. */
  newest(key: string, cached: JobRow | undefined): JobRow | undefined;
  record(key: string, row: JobRow): void;
  /** The API server has refused a write that was based on it, or the job is gone: the cached row counts from now on. */
  forget(key: string): void;
};

/**
 * Keeps a row until the cache has it, or until the API server contradicts it: after a restore of its store, versions are lower than those that were written
 * before.
 */
export function ownWrites(): OwnWrites {
  const written = new Map<string, JobRow>();
  return {
    newest: (key, cached) => {
      const own = written.get(key);
      if (own === undefined) return cached;
      if (cached?.metadata.uid === own.metadata.uid && versionOf(cached) < versionOf(own)) return own;
      written.delete(key);
      return cached;
    },
    record: (key, row) => void written.set(key, row),
    forget: (key) => void written.delete(key),
  };
}
