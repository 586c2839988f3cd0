/** The mark that every node is published. */
export type NodesMark = {
  /** When the watcher that wrote it observed, by that watcher's clock. */
  readonly atMs: number;
};

export type MarkStep = {
  readonly atMs: number;
  /** Undefined: it must not exist. */
  readonly expectedRevision: number | undefined;
  readonly because: "absent" | "old";
};

type MarkPlan = {
  readonly step: MarkStep | undefined;
  /** When there may be something to do even if nothing happens. */
  readonly nextMs: number;
};

/** Half of the promised interval, so that one failed write does not break the promise. */
const RENEW_AFTER_MS = 15_000;
/** No event reports that the view of the bucket is current again. */
const RECHECK_MS = 1000;

/**
 * Whether the mark has to be written once everything else that the pass has planned for nodes is written.
 *
 * Only a current view of the bucket knows what is missing there: one that is not may hold nodes that were lost with the bucket, and would mark an empty bucket
 * as complete. A mark from the future, by another clock, is as good as an old one.
 */
export function planMark(snapshot: {
  readonly nowMs: number;
  readonly bucketCurrent: boolean;
  readonly mark: (NodesMark & { readonly revision: number }) | undefined;
}): MarkPlan {
  const { nowMs, bucketCurrent, mark } = snapshot;
  if (!bucketCurrent) return { step: undefined, nextMs: nowMs + RECHECK_MS };
  const renewal = nowMs + RENEW_AFTER_MS;
  if (mark === undefined) {
    return { step: { atMs: nowMs, expectedRevision: undefined, because: "absent" }, nextMs: renewal };
  }
  if (Math.abs(nowMs - mark.atMs) < RENEW_AFTER_MS) return { step: undefined, nextMs: mark.atMs + RENEW_AFTER_MS };
  return { step: { atMs: nowMs, expectedRevision: mark.revision, because: "old" }, nextMs: renewal };
}
