/**
 * Yields the counters of an engine until the signal, the present ones first. `get` calls GetCounters with this `after_number`. Leaves nothing behind after it
 * ends. Rejects as `get` does.
 */
export async function* streamCounts<Count extends { readonly number: number }>(
  get: (afterNumber: number, signal: AbortSignal) => Promise<Count>,
  signal: AbortSignal,
): AsyncGenerator<Count> {
  for (let after = 0; !signal.aborted;) {
    let count: Count;
    try {
      count = await get(after, signal);
    } catch (error) {
      if (isAborted(signal)) return;
      throw error;
    }
    yield count;
    after = count.number;
  }
}

/** Evaluated again after each wait, which TypeScript cannot know. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
