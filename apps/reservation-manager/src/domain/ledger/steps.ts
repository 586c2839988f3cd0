/** Long work, cut into steps: at each yield the caller may run other work. */
export type Steps<Result> = Generator<undefined, Result>;

/** Runs all steps synchronously. */
export function runToEnd<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const next = steps.next();
    if (next.done === true) return next.value;
  }
}
