import { parseVersion } from "./read-job.ts";

type StoredRow = { readonly metadata: { readonly uid?: string; readonly resourceVersion?: string } };

/** Rows that this process has written and its cache may not show yet. */
type OwnWrites<Row> = {
  /** Returns the newer of the cached row and the own row. */
  newest(key: string, cached: Row | undefined): Row | undefined;
  record(key: string, row: Row): void;
  /** Drops the own row after the API server refused a write that was based on it, or the object was deleted: the cached row counts from now on. */
  forget(key: string): void;
};

/**
 * Keeps a row until the cache has it or the API server contradicts it. After a restore of its store, the API server has versions lower than the written ones.
 */
export function makeOwnWrites<Row extends StoredRow>(): OwnWrites<Row> {
  const written = new Map<string, Row>();
  return {
    newest: (key, cached) => {
      const own = written.get(key);
      if (own === undefined) return cached;
      if (cached !== undefined && cached.metadata.uid === own.metadata.uid && parseVersion(cached) < parseVersion(own))
        return own;
      written.delete(key);
      return cached;
    },
    record: (key, row) => void written.set(key, row),
    forget: (key) => void written.delete(key),
  };
}
