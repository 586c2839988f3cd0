/** Remembers that something happened until somebody waits for it. */
export type Wakeup = {
  ring(): void;
  /** Resolves at once if it was rung since the last wait; otherwise at the next ring, after `longestMs`, or at the signal. */
  wait(longestMs: number, signal: AbortSignal): Promise<void>;
};

export function makeWakeup(): Wakeup {
  let rung = false;
  let wake: (() => void) | undefined;
  return {
    ring: () => {
      rung = true;
      wake?.();
    },
    wait: async (longestMs, signal) => {
      if (!rung && !signal.aborted) {
        const { promise, resolve } = Promise.withResolvers<undefined>();
        wake = () => resolve(undefined);
        const timer = setTimeout(wake, longestMs);
        signal.addEventListener("abort", wake, { once: true });
        await promise;
        clearTimeout(timer);
        signal.removeEventListener("abort", wake);
        wake = undefined;
      }
      rung = false;
    },
  };
}
