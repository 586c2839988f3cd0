/** The mark with which a watcher confirms that every node is published. */
export type NodesMark = {
  /** Time in ms since 1970 at which the watcher that wrote the mark observed the cluster, by its own clock. */
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
  /** Time in ms since 1970 at which the next pass is due if no event arrives. */
  readonly nextMs: number;
};

/** Half of the promised interval, so that one failed write does not break the promise. */
const RENEW_AFTER_MS = 15_000;
/** Poll interval while the view of the bucket is outdated: no event reports that it is current again. */
const RECHECK_MS = 1000;

/**
 * Decides whether the mark is due once all other planned writes of nodes are done.
 *
 * Only a current view of the bucket shows which nodes are missing in it. An outdated view may contain nodes that were lost with the bucket, and the mark would
 * then confirm an empty bucket as complete. A mark from the future, by another clock, counts as an old mark.
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
