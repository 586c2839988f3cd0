/** A clock that a test owns. */
export function makeFixedClock(startMs = Date.UTC(2026, 0, 1)): { now: () => number; advance: (ms: number) => void } {
  let nowMs = startMs;
  return {
    now: () => nowMs,
    advance: (ms) => {
      nowMs += ms;
    },
  };
}
