export type Clock = {
  /** Milliseconds since 1970 that never jump while the process runs, because a corrected clock must not end nodes. Used for all durations measured here. */
  readonly now: () => number;
  /** Milliseconds since 1970 by the wall clock, which jumps when it is corrected. For times that other processes wrote or will read. */
  readonly wallNow: () => number;
};

/** Creates a clock; `ticking` counts milliseconds monotonically. */
export function makeSteadyClock(
  wallNow: () => number = Date.now,
  ticking: () => number = () => performance.now(),
): Clock {
  const originMs = wallNow() - ticking();
  return { now: () => Math.round(originMs + ticking()), wallNow };
}
