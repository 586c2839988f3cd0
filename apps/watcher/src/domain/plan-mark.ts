/** The mark that every node is published. */
export type NodesMark = {
  /** When the watcher that wrote it observed the cluster, by its own clock. */
  readonly atMs: number;
};

export type MarkStep = {
  readonly atMs: number;
  /** Undefined: the mark must not exist. */
  readonly expectedRevision: number | undefined;
  readonly because: "absent" | "old";
};

type MarkPlan = {
  readonly step: MarkStep | undefined;
  /** When the next pass is due without any event. */
  readonly nextMs: number;
};

/** Half of the promised interval, so that one failed write does not break the promise. */
const RENEW_AFTER_MS = 15_000;
/** No event reports that the view of the bucket is current again, so it is polled. */
const RECHECK_MS = 1000;

/**
 * Decides whether the mark is due once all other planned writes of nodes are done.
 *
 * Only a current view of the bucket shows what is missing there. An outdated one may contain nodes that were lost with the bucket, and the mark would declare
 * an empty bucket complete. A mark from the future, by another clock, counts as an old one.
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
