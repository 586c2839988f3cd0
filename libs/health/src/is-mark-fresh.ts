/** The watcher renews its mark every 30 seconds; a mark three times as old proves nothing. */
export const MARK_FRESH_MS = 90_000;

/**
 * Whether the watcher's mark that all nodes are known is believed: it is no further than freshMs from now, by the wall clock. One far in the future is not: it would
 * outlive its watcher until then. Undefined: there is none.
 */
export function isMarkFresh(markedMs: number | undefined, freshMs: number, nowMs: number): boolean {
  return markedMs !== undefined && Math.abs(nowMs - markedMs) <= freshMs;
}
