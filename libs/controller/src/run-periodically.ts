import { computeBackoffMs, pause, type BackoffLimits } from "@muster/backoff";
import { logLevelOf } from "@muster/faults";
import { makePassDurations, type PassOutcome } from "./controller-metrics.ts";

export type PeriodicWork = {
  /** Name in metrics; low cardinality. */
  readonly name: string;
  readonly work: () => Promise<unknown>;
  /** Pause between the end of a round and the start of the next; a function is called after each round, also a failed one. */
  readonly everyMs: number | (() => number);
  /** Pause before the first round; default 0. */
  readonly firstAfterMs?: number;
  /** Pauses after failed rounds; default `everyMs`. */
  readonly retry?: BackoffLimits;
  /**
   * Called for each failed round, `failures` in a row. `level`: `error` for a defect, `warn` for a fault. An error that it throws ends the work. Missing: the
   * first failure ends the work.
   */
  readonly onError?: (error: unknown, failures: number, level: "warn" | "error") => void;
  /** Spends a pause; may end it early. Default: until its time has passed or the signal is aborted. */
  readonly rest?: (ms: number, signal: AbortSignal) => Promise<unknown>;
  readonly stop: AbortSignal;
};

/**
 * Repeats work that concerns all keys together, until the stop; rounds never overlap. Rejects with the error that `onError` throws; without `onError`, with the
 * first failure. A round in flight at the stop may finish; its failure is not reported.
 */
export async function runPeriodically(options: PeriodicWork): Promise<void> {
  const { everyMs, firstAfterMs = 0, retry, rest = pause, stop } = options;
  const record = makePassDurations(options.name);
  const isStopped = (): boolean => stop.aborted;
  if (firstAfterMs > 0) await rest(firstAfterMs, stop);
  for (let failures = 0; !isStopped();) {
    const startedMs = performance.now();
    const { outcome, error } = await round(options);
    record(outcome, (performance.now() - startedMs) / 1000);
    failures = outcome === "error" ? failures + 1 : 0;
    if (outcome === "error") report(options, error, failures);
    else if (outcome === "stopped") return;
    const usualMs = typeof everyMs === "number" ? everyMs : everyMs();
    await rest(failures > 0 && retry !== undefined ? computeBackoffMs(failures, retry) : usualMs, stop);
  }
}

async function round({
  work,
  stop,
}: PeriodicWork): Promise<{ readonly outcome: PassOutcome; readonly error?: unknown }> {
  try {
    await work();
    return { outcome: "success" };
  } catch (error) {
    return { outcome: stop.aborted ? "stopped" : "error", error };
  }
}

function report({ onError }: PeriodicWork, error: unknown, failures: number): void {
  if (onError === undefined) throw error;
  onError(error, failures, logLevelOf(error));
}
