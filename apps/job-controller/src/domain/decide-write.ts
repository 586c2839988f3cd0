import { isRemembered, type JobStatus } from "./job-status.ts";

/**
 * When a status is written. `first`: something in it must be remembered before anything that follows from it is done. `after`: it tells what has been done. `later`: only
 * counts differ, and they were written a moment ago. `never`: nothing differs.
 */
export type WriteTime = "first" | "after" | "later" | "never";

/** Decides when the next status is to be written in place of the stored one. `sinceMs`: since this process last wrote one. */
export function decideWrite(stored: JobStatus, next: JobStatus, sinceMs: number, everyMs: number): WriteTime {
  if (same(stored, next)) return "never";
  if (!same(promises(stored), promises(next))) return "first";
  if (!same(news(stored), news(next))) return "after";
  return sinceMs >= everyMs ? "after" : "later";
}

/** What steps rely on: what is counted, completed, replaced or over. */
function promises(status: JobStatus): unknown {
  const { attempt, attemptsCounted, replaced, regrouping, completionMs } = status;
  const replicas = status.replicas
    .filter(isRemembered)
    .map(({ type, restarts, completedIndexes, counted, uncounted }) => {
      return { type, restarts, completedIndexes, counted, uncounted };
    });
  return { attempt, attemptsCounted, replaced, regrouping, completionMs, replicas };
}

/** What people wait for. */
function news({ conditions, observedGeneration, startMs }: JobStatus): unknown {
  return { conditions, observedGeneration, startMs };
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
