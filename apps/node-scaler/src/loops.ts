import type { Clock } from "@muster/backoff";
import { runController, workQueue, type ControllerLead } from "@muster/controller";
import type { LoopName } from "./scaler.ts";

/** The rounds of one loop under this leader. */
export type LoopReport = {
  readonly name: LoopName;
  readonly intervalMs: number;
  rounds: number;
  failures: number;
  lastStartedAtMs: number;
  lastDurationMs: number;
  meanDurationMs: number;
  /** The error of the latest round; undefined if it succeeded. */
  error: string | undefined;
};

export type ScalerLoop = { readonly report: LoopReport; readonly round: () => Promise<void> };

type LoopDeps = {
  /** No round begins after this signal, and a round that ends later is not reported. */
  readonly lead: ControllerLead & { readonly signal: AbortSignal };
  /** Milliseconds since 1970, for the reports. */
  readonly now: () => number;
  readonly clock?: Clock;
  /** Called after each round. */
  readonly onRoundEnd: (report: LoopReport, error: unknown) => void;
};

export function makeEmptyReport(name: LoopName, intervalMs: number): LoopReport {
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

/** Runs each loop at its interval while this process leads, never two rounds of one loop concurrently. Reports a failed round, and continues the loop. */
export async function runLoops(loops: readonly ScalerLoop[], deps: LoopDeps): Promise<void> {
  const { lead, clock } = deps;
  const byName = new Map<string, ScalerLoop>(loops.map((loop) => [loop.report.name, loop]));
  const timed = clock === undefined ? {} : { clock };
  const queue = workQueue(timed);
  for (const { report } of loops) queue.addAfter(report.name, report.intervalMs);
  await runController({
    name: "node",
    queue,
    workers: loops.length,
    reconcile: async (name) => {
      const loop = byName.get(name);
      if (loop === undefined) return {};
      await runRound(loop, deps);
      return { requeueAfterMs: loop.report.intervalMs };
    },
    lead,
    stop: lead.signal,
    ...timed,
  });
}

/** Runs one round and reports its end. Never rejects. */
async function runRound({ report, round }: ScalerLoop, { lead, now, onRoundEnd: ended }: LoopDeps): Promise<void> {
  report.lastStartedAtMs = now();
  let failure: unknown;
  try {
    await round();
  } catch (error) {
    failure = error;
  }
  if (lead.signal.aborted) return;
  report.rounds += 1;
  report.lastDurationMs = now() - report.lastStartedAtMs;
  report.meanDurationMs += (report.lastDurationMs - report.meanDurationMs) / report.rounds;
  report.error = failure === undefined ? undefined : failure instanceof Error ? failure.message : "not an error";
  if (failure !== undefined) report.failures += 1;
  ended(report, failure);
}
