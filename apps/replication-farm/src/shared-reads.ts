/** Shares one read among all callers that wait while an earlier read is in flight. The shared read begins after the last of these calls. */
export function makeSharedReads<Result>(read: () => Promise<Result>): () => Promise<Result> {
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
