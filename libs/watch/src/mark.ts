import { isMarkFresh } from "@muster/health";
import { bucketKeys } from "@muster/proto";
import type { View } from "@muster/store";

type MarkOptions = {
  /** Maximum age of a valid mark in milliseconds. */
  readonly freshMs: number;
  /** Never set, unlike the wall clock. */
  readonly monotonicMs?: () => number;
};

/**
 * Follows the watcher's mark that all nodes are known, and returns whether it is valid at a wall-clock time. A mark that a fast clock has written stays recent
 * after its watcher has stopped, so it must also be renewed. Call it once for each view, which it follows until that is closed.
 */
export function followMark(
  marks: Pick<View<unknown>, "onChange">,
  markedAtMs: () => number | undefined,
  { freshMs, monotonicMs = () => performance.now() }: MarkOptions,
): (nowMs: number) => boolean {
  let changedMs = monotonicMs();
  marks.onChange((key) => {
    if (key === bucketKeys.nodesComplete) changedMs = monotonicMs();
  });
  return (nowMs) => monotonicMs() - changedMs <= freshMs && isMarkFresh(markedAtMs(), freshMs, nowMs);
}
