/** Outages of one server: the second waits for the end of the first. After `stop`, which waits for the last one, none begins. */
export type OneAtATime = {
  readonly run: (work: () => Promise<void>) => Promise<void>;
  readonly stop: () => Promise<void>;
};

export function oneAtATime(): OneAtATime {
  let isStopped = false;
  let last: Promise<unknown> = Promise.resolve();
  return {
    run: (work) => {
      const done = last.then(() => (isStopped ? undefined : work()));
      last = done.catch(() => undefined);
      return done;
    },
    stop: async () => {
      isStopped = true;
      await last;
    },
  };
}
