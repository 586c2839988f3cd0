import { isMarkFresh } from "@muster/health";
import { bucketKeys } from "@muster/proto";
import type { View } from "@muster/store";

type MarkOptions = {
  /** Maximum age of a valid mark in milliseconds. */
  readonly freshMs: number;
  /** Monotonic milliseconds: unlike the wall clock, this clock is never set. */
  readonly monotonicMs?: () => number;
};

/**
 * Follows the watcher's mark that all nodes are known, and returns whether it is valid at a wall-clock time. A mark that a fast clock has written stays recent
 * after its watcher has stopped, so it must also be renewed. Follows the view until the view is closed, so call this function once per view.
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
