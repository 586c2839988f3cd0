import { isRemembered, isTrue, type JobStatus } from "./job-status.ts";

/**
 * The time at which a status is written. `first`: before the steps that rely on it. `after`: after the steps whose effect it describes. `later`: when recent
 * writes allow, because only counts differ. `never`: nothing differs.
 */
export type WriteTime = "first" | "after" | "later" | "never";

/** Decides when the next status replaces the stored one. `sinceMs` is the time since this process last wrote one. */
export function decideWrite(stored: JobStatus, next: JobStatus, sinceMs: number, everyMs: number): WriteTime {
  if (same(stored, next)) return "never";
  if (!same(promises(stored), promises(next))) return "first";
  if (!same(reportedPart(stored), reportedPart(next))) return "after";
  return sinceMs >= everyMs ? "after" : "later";
}

/** The part of the status that steps rely on: counts, completions, replacements, whether preempted machines have been left, and the end. */
function promises(status: JobStatus): unknown {
  const { attempt, attemptsCounted, replaced, regrouping, completionMs, readyTimeouts, lastReadyTimeoutMs } = status;
  const gang = { attempt, attemptsCounted, replaced, regrouping, readyTimeouts, lastReadyTimeoutMs };
  const replicas = status.replicas
    .filter(isRemembered)
    .map(({ type, restarts, completedIndexes, counted, uncounted }) => {
      return { type, restarts, completedIndexes, counted, uncounted };
    });
  const hasLeft = isTrue(status, "Preempted") && status.startMs === undefined;
  return { ...gang, completionMs, replicas, hasLeft };
}

/**
 * The part of the status that users wait for, and whether the gang was ready. Without the latter, a later pass over the stored status would release a gang that
 * has lost a pod since.
 */
function reportedPart({ conditions, observedGeneration, startMs, hasBeenReady }: JobStatus): unknown {
  return { conditions, observedGeneration, startMs, hasBeenReady };
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
