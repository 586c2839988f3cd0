import { isMarkFresh } from "@muster/health";
import { bucketKeys } from "@muster/proto";
import type { View } from "@muster/store";

type MarkOptions = {
  /** A mark that is older proves nothing. */
  readonly freshMs: number;
  /** Never set, unlike the wall clock. */
  readonly monotonicMs?: () => number;
};

/**
 * Follows the watcher's mark that all nodes are known, and returns whether it is believed at a moment of the wall clock. A mark that a fast clock has written
 * approaches now when its watcher is long gone: it is believed only while it is renewed, too. Call it once for each view, which it follows until that is
 * closed.
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
