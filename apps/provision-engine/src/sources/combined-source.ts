import type { LeaseJob, LeaseSource } from "./lease-source.ts";

type Arrival = { readonly from: AsyncIterator<LeaseJob>; readonly result: IteratorResult<LeaseJob> };

/** Brings what all of the sources bring, in each one's order, and none before its turn; ends when all have ended. When one fails it fails, and stops the others. */
export function combinedSource(...sources: readonly LeaseSource[]): LeaseSource {
  return async function* (signal) {
    const stop = new AbortController();
    const all = AbortSignal.any([signal, stop.signal]);
    const iterators = sources.map((source) => source(all)[Symbol.asyncIterator]());
    const arrivals: Arrival[] = [];
    let failure: { readonly error: unknown } | undefined;
    let wake: () => void = () => undefined;
    const ask = (from: AsyncIterator<LeaseJob>): void => {
      from.next().then(
        (result) => {
          arrivals.push({ from, result });
          wake();
        },
        (error: unknown) => {
          failure ??= { error };
          wake();
        },
      );
    };
    const stopped = (): void => {
      wake();
    };
    all.addEventListener("abort", stopped);
    try {
      iterators.forEach(ask);
      let open = iterators.length;
      while (open > 0 && !all.aborted) {
        if (failure !== undefined) throw failure.error;
        const arrival = arrivals.shift();
        if (arrival === undefined) {
          await new Promise<void>((resolve) => (wake = resolve));
          continue;
        }
        if (arrival.result.done === true) {
          open -= 1;
          continue;
        }
        yield arrival.result.value;
        ask(arrival.from);
      }
    } finally {
      all.removeEventListener("abort", stopped);
      stop.abort();
      // Also those that nobody has asked since their last job have something to put away.
      await Promise.allSettled(iterators.map(async (each) => each.return?.()));
    }
  };
}
