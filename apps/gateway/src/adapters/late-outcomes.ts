import { computeBackoffMs, pause } from "@muster/backoff";
import type { Logger } from "@muster/service";

/** The outcome of a change, with its record for the log. */
export type LateOutcome = { readonly record: object; readonly publish: () => Promise<unknown> };

/** Outcomes that the stream has not accepted. Disposal publishes each once more, and logs a lost one as an error with its record. */
export type LateOutcomes = AsyncDisposable & {
  /** Publishes the outcome repeatedly until the stream accepts it. `error`: the error of the first attempt. */
  add(outcome: LateOutcome, error: unknown): void;
  readonly count: number;
};

/** Maximum waiting outcomes, of 1 KB each; further outcomes are lost. */
const MAX_LATE = 10_000;
const RETRY = { firstMs: 500, maxMs: 10_000 };

export function openLateOutcomes(logger: Pick<Logger, "error" | "warn" | "info">): LateOutcomes {
  const late = new Set<LateOutcome>();
  const stop = new AbortController();
  let retrying: Promise<void> | undefined;
  const lose = ({ record }: LateOutcome, error: unknown): void =>
    logger.error({ err: error, record }, "the audit lacks the outcome of a change");
  const publishAll = async (): Promise<void> => {
    for (const outcome of late) {
      if (stop.signal.aborted) return;
      await outcome.publish();
      late.delete(outcome);
    }
  };
  const retry = async (): Promise<void> => {
    for (let attempt = 1; late.size > 0 && !stop.signal.aborted; attempt += 1) {
      await pause(computeBackoffMs(attempt, RETRY), stop.signal);
      // Only the first failure is logged, because later ones are equal.
      await publishAll().catch(() => undefined);
    }
    retrying = undefined;
    if (late.size === 0) logger.info({}, "the audit has the outcomes of all changes again");
  };
  return {
    get count() {
      return late.size;
    },
    add: (outcome, error) => {
      if (late.size >= MAX_LATE) {
        lose(outcome, error);
        return;
      }
      if (late.size === 0) logger.warn({ err: error }, "the audit does not take the outcomes of changes; retrying");
      late.add(outcome);
      retrying ??= retry();
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await retrying;
      const last = [...late].map((outcome) => outcome.publish().catch((error: unknown) => lose(outcome, error)));
      await Promise.all(last);
    },
  };
}
