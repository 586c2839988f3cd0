/** Serialises outages of one server. `stop` waits for the last outage; none begins afterwards. */
export type OneAtATime = {
  readonly run: (work: () => Promise<void>) => Promise<void>;
  readonly stop: () => Promise<void>;
};

export function makeOneAtATime(): OneAtATime {
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
