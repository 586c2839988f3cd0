import { MAX_TIMER_MS } from "./backoff.ts";

/** A monotonic clock and its alarms. Injected wherever something waits, so that a test owns the time. */
export type Clock = {
  /** Milliseconds since a fixed moment in the past; monotonic, independent of the wall clock. */
  readonly now: () => number;
  /** Calls `ring` once after that many milliseconds, maybe earlier when they are more than a timer holds. Returns the way to forget it. */
  readonly alarm: (afterMs: number, ring: () => void) => () => void;
};

/** A clock whose time can be set forward and back, like the wall clock. */
export type SettableClock = { readonly now: () => number; readonly alarm: Clock["alarm"] };

/** The machine's own. */
export const systemClock: Clock = {
  now: () => performance.now(),
  alarm: (afterMs, ring) => {
    const timer = setTimeout(ring, Math.min(Math.max(0, Math.ceil(afterMs)), MAX_TIMER_MS));
    return () => clearTimeout(timer);
  },
};

/** Resolves when the clock has advanced by `ms`, or immediately when the signal is aborted; never rejects. */
export function pauseBy(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const endMs = clock.now() + ms;
    const done = (): void => {
      forget();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const ring = (): void => {
      if (clock.now() >= endMs) done();
      else forget = clock.alarm(endMs - clock.now(), ring);
    };
    let forget = clock.alarm(ms, ring);
    signal?.addEventListener("abort", done);
  });
}
