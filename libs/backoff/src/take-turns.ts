/** Runs a limited number of tasks concurrently; the others start in order. A task whose signal aborts before its start never runs, and rejects. */
export type TakeTurn = <Result>(work: () => Promise<Result>, signal?: AbortSignal) => Promise<Result>;

export function takeTurns(atOnce: number): TakeTurn {
  const waiting: (() => void)[] = [];
  let busy = 0;
  const turn = async (signal: AbortSignal | undefined): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const go = (): void => resolve(undefined);
    const leave = (): void => {
      const at = waiting.indexOf(go);
      if (at >= 0) waiting.splice(at, 1);
      reject(signal?.reason);
    };
    waiting.push(go);
    signal?.addEventListener("abort", leave, { once: true });
    await promise.finally(() => signal?.removeEventListener("abort", leave));
  };
  return async (work, signal) => {
    signal?.throwIfAborted();
    if (busy < atOnce) busy += 1;
    else await turn(signal);
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) busy -= 1;
      else next();
    }
  };
}
