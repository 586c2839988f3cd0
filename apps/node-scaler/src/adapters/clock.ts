/** The two times that a process knows. */
export type Clock = {
  /** Milliseconds since 1970 that never jump while the process lives: a clock that is set must not end nodes. For all that is measured here. */
  readonly now: () => number;
  /** Milliseconds since 1970 by the wall clock, which jumps when it is set. For times that others wrote, or will read. */
  readonly wallNow: () => number;
};

/** `ticking` counts milliseconds monotonically. */
export function steadyClock(wallNow: () => number = Date.now, ticking: () => number = () => performance.now()): Clock {
  const originMs = wallNow() - ticking();
  return { now: () => Math.round(originMs + ticking()), wallNow };
}
