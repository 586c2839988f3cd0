import { setTimeout as sleep } from "node:timers/promises";

/** Runs one pass at a time; a poke during a pass leads to one more. */
export type ReconcileLoop = AsyncDisposable & { readonly poke: () => void };

const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 5_000;

/**
 * Starts a loop that sleeps until it is poked. A pass that throws is reported and made again after a pause that doubles up to 5 seconds, so nothing is
 * lost when the API server is away. Disposing waits for the pass under way.
 */
export function makeReconcileLoop(options: {
  readonly pass: () => Promise<void>;
  readonly onError: (error: unknown, retryInMs: number) => void;
}): ReconcileLoop {
  const stop = new AbortController();
  let wake = Promise.withResolvers<undefined>();
  const poke = (): void => {
    wake.resolve(undefined);
  };

  const run = async (): Promise<void> => {
    let failures = 0;
    for (;;) {
      await wake.promise;
      if (stop.signal.aborted) return;
      wake = Promise.withResolvers();
      try {
        await options.pass();
        failures = 0;
      } catch (error) {
        const pauseMs = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** failures);
        failures += 1;
        options.onError(error, pauseMs);
        await sleep(pauseMs, undefined, { signal: stop.signal }).catch(() => undefined);
        poke();
      }
    }
  };

  const ended = run();
  return {
    poke,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      poke();
      await ended;
    },
  };
}
