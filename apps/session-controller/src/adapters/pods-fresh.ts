import { MARK_FRESH_MS } from "@muster/health";
import { bucketKeys, type muster } from "@muster/proto";
import type { View } from "@muster/store";
import { followMark } from "@muster/watch";

/**
 * Returns whether a watcher has recently confirmed that it observes the cluster, and the view of its publications is current. `mark`: the view of the watchers'
 * confirmation.
 */
export function arePodsFresh(
  pods: Pick<View<unknown>, "ageMs">,
  mark: Pick<View<muster.watch.v1.NodesComplete>, "ageMs" | "get" | "onChange">,
  now: () => number,
): () => boolean {
  const isMarked = followMark(mark, () => mark.get(bucketKeys.nodesComplete)?.value.atMs, { freshMs: MARK_FRESH_MS });
  return () => Math.max(pods.ageMs(), mark.ageMs()) === 0 && isMarked(now());
}
