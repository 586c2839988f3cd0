/**
 * Counts of an engine as they come, the present ones first, until the signal; `get` asks GetCounters with this `after_number`. Nothing is left of it anywhere once it has
 * ended, or is left. Rejects as `get` does.
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

/** Asked anew after each wait. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
