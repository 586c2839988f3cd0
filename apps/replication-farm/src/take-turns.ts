/** Runs work, so many at once; the rest begins in the order in which it came. */
export type Turns = <Result>(work: () => Promise<Result>) => Promise<Result>;

export function takeTurns(atOnce: number): Turns {
  const waiting: (() => void)[] = [];
  let busy = 0;
  return async (work) => {
    if (busy < atOnce) busy += 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) busy -= 1;
      else next();
    }
  };
}

/** One reading for all who ask while an earlier one is under way; it begins after the last of them has asked. */
export function shareReads<Result>(read: () => Promise<Result>): () => Promise<Result> {
  let current: Promise<unknown> = Promise.resolve();
  let next: Promise<Result> | undefined;
  const begin = (): Promise<Result> => {
    next = undefined;
    const begun = read();
    current = begun;
    return begun;
  };
  return () => (next ??= current.then(begin, begin));
}
