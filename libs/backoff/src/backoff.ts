/** Longest wait that a timer of Node can hold, some 24 days; a longer one fires immediately. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

export type BackoffLimits = { readonly firstMs: number; readonly maxMs: number };

/** Delay before the attempt after `attempt` (1 = the first). Doubles from firstMs to maxMs; random within its upper half, so that retries do not coincide. */
export function computeBackoffMs(attempt: number, limits: BackoffLimits, random: () => number = Math.random): number {
  const full = Math.min(limits.maxMs, limits.firstMs * 2 ** Math.max(0, Math.min(attempt - 1, 30)));
  return Math.round(full * (0.5 + random() / 2));
}

/** Resolves after the delay, or immediately when the signal is aborted; never rejects. */
export function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(delayMs, MAX_TIMER_MS));
    signal?.addEventListener("abort", done);
  });
}

/** Waits for the work, but no longer than limitMs; false when it was not done by then. The work's own failure counts as done. */
export async function within(limitMs: number, work: PromiseLike<unknown>): Promise<boolean> {
  const stop = new AbortController();
  const late = pause(limitMs, stop.signal).then(() => false);
  const done = Promise.resolve(work).then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([done, late]);
  } finally {
    stop.abort();
  }
}

/**
 * A signal that is aborted after the time (with TimeoutError), or with one of the other signals. Disposal releases its memory immediately; AbortSignal.any of
 * AbortSignal.timeout keeps it until the timeout.
 */
export function makeDeadline(
  afterMs: number,
  others: readonly AbortSignal[] = [],
): Disposable & { readonly signal: AbortSignal } {
  const over = new AbortController();
  const late = (): void => over.abort(new DOMException(`not done within ${afterMs} ms`, "TimeoutError"));
  const timer = setTimeout(late, Math.min(afterMs, MAX_TIMER_MS));
  timer.unref();
  const followed = others.map((other) => {
    const follow = (): void => over.abort(other.reason);
    if (other.aborted) follow();
    other.addEventListener("abort", follow);
    return () => other.removeEventListener("abort", follow);
  });
  return {
    signal: over.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      for (const leave of followed) leave();
    },
  };
}
