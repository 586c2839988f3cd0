/** Milliseconds to wait before the next attempt: doubles from 50 ms up to 5 s, with half of it random so that many who failed together do not return together. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const full = Math.min(5000, 50 * 2 ** Math.min(attempt, 10));
  return full / 2 + (random() * full) / 2;
}

/** Resolves after the time or when the signal is aborted, whichever is first; never rejects. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
