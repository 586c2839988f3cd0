/** Work that takes long, cut into steps: each yield is a moment for something else. */
export type Steps<Result> = Generator<undefined, Result>;

/** Runs all steps synchronously. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const next = steps.next();
    if (next.done === true) return next.value;
  }
}
