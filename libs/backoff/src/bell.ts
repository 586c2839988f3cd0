import { MAX_TIMER_MS } from "./backoff.ts";

/** Wakes a waiter before its time has passed. A ring without a waiter ends the next wait immediately. */
export type Bell = {
  ring(): void;
  /** Rings until now end no wait. */
  reset(): void;
  /** Resolves at a ring, after `ms`, or at the signal; true: it was rung. One waits at a time. */
  wait(ms: number, signal: AbortSignal): Promise<boolean>;
};

export function makeBell(): Bell {
  let rung = false;
  let wake: (() => void) | undefined;
  return {
    ring: () => {
      rung = true;
      wake?.();
    },
    reset: () => {
      rung = false;
    },
    wait: async (ms, signal) => {
      if (!rung && !signal.aborted) {
        const { promise, resolve } = Promise.withResolvers<undefined>();
        wake = () => resolve(undefined);
        const timer = setTimeout(wake, Math.min(ms, MAX_TIMER_MS));
        signal.addEventListener("abort", wake, { once: true });
        await promise;
        clearTimeout(timer);
        signal.removeEventListener("abort", wake);
        wake = undefined;
      }
      const wasRung = rung;
      rung = false;
      return wasRung;
    },
  };
}
