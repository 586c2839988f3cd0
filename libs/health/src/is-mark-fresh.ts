/** Maximum age of the mark that the watcher renews every 30 seconds. */
export const MARK_FRESH_MS = 90_000;

/**
 * Whether the watcher's mark that all nodes are known counts: it is at most freshMs from now, by the wall clock. A mark from far in the future does not
 * count, because it would outlive its watcher. Undefined: the mark is missing.
 */
export function isMarkFresh(markedMs: number | undefined, freshMs: number, nowMs: number): boolean {
  return markedMs !== undefined && Math.abs(nowMs - markedMs) <= freshMs;
}
