import { versionOf, type JobRow } from "./read-job.ts";

/** What this process has written and its cache may not show yet. */
export type OwnWrites = {
  /** The newer of what is cached and what was written here. */
  newest(key: string, cached: JobRow | undefined): JobRow | undefined;
  wrote(key: string, row: JobRow): void;
  /** The API server has refused a write that began with it, or the job is gone: what is cached counts from now on. */
  forget(key: string): void;
};

/** Nothing is written yet. Keeps a row until the cache has it, or until the API server contradicts it: after a restore of its store versions are lower than what was written before. */
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
    wrote: (key, row) => void written.set(key, row),
    forget: (key) => void written.delete(key),
  };
}
