type CountTicks = {
  /** Resolves at the next tick, or with the signal. */
  next(signal: AbortSignal): Promise<void>;
};

/** Ticks at multiples of `everyMs` on the clock, with one timer for all waiting calls, and no timer without a waiting call. */
export function countTicks(everyMs: number, nowMs: () => number): CountTicks {
  const waiting = new Set<() => void>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tick = (): void => {
    for (const end of [...waiting]) end();
  };
  return {
    next: (signal) =>
      new Promise((resolve) => {
        const end = (): void => {
          signal.removeEventListener("abort", end);
          waiting.delete(end);
          if (waiting.size === 0) clearTimeout(timer);
          resolve();
        };
        if (signal.aborted) {
          resolve();
          return;
        }
        if (waiting.size === 0) timer = setTimeout(tick, everyMs - (nowMs() % everyMs));
        signal.addEventListener("abort", end, { once: true });
        waiting.add(end);
      }),
  };
}
