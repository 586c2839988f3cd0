import { pause } from "@muster/backoff";
import type { LoopName } from "./scaler.ts";

/** One loop, as far as this leader has run it. */
export type LoopReport = {
  readonly name: LoopName;
  readonly intervalMs: number;
  rounds: number;
  failures: number;
  lastStartedAtMs: number;
  lastDurationMs: number;
  meanDurationMs: number;
  /** Of the latest round; undefined: it did not fail. */
  error: string | undefined;
};

export type LoopDeps = {
  readonly signal: AbortSignal;
  readonly now: () => number;
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Told when a round has ended. */
  readonly ended: (report: LoopReport, error: unknown) => void;
};

export function emptyReport(name: LoopName, intervalMs: number): LoopReport {
  return {
    name,
    intervalMs,
    rounds: 0,
    failures: 0,
    lastStartedAtMs: 0,
    lastDurationMs: 0,
    meanDurationMs: 0,
    error: undefined,
  };
}

/** Waits for the interval and runs a round, again and again until the signal; never two rounds at once, whatever they take. A round that fails is told, and is no end. */
export async function runLoop(report: LoopReport, round: () => Promise<void>, deps: LoopDeps): Promise<void> {
  const { signal, now, wait = pause, ended } = deps;
  const stopped = (): boolean => signal.aborted;
  for (;;) {
    await wait(report.intervalMs, signal);
    if (stopped()) return;
    report.lastStartedAtMs = now();
    let failure: unknown;
    try {
      await round();
    } catch (error) {
      failure = error;
    }
    if (stopped()) return;
    report.rounds += 1;
    report.lastDurationMs = now() - report.lastStartedAtMs;
    report.meanDurationMs += (report.lastDurationMs - report.meanDurationMs) / report.rounds;
    report.error = failure === undefined ? undefined : failure instanceof Error ? failure.message : "not an error";
    if (failure !== undefined) report.failures += 1;
    ended(report, failure);
  }
}
