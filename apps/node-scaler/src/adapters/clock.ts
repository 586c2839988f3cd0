/** The two times that a process knows. */
export type Clock = {
  /** Milliseconds since 1970 that never jump while the process lives: a clock that is set must not end nodes. For all that is measured here. */
  readonly now: () => number;
  /** Milliseconds since 1970 as everybody else counts them, which jump when the clock is set. For times that others wrote, or will read. */
  readonly wallNow: () => number;
};

/** `ticking` counts milliseconds monotonically. */
export function steadyClock(wallNow: () => number = Date.now, ticking: () => number = () => performance.now()): Clock {
  const originMs = wallNow() - ticking();
  return { now: () => Math.round(originMs + ticking()), wallNow };
}
