import { metrics } from "@opentelemetry/api";
import type { ScaledNode } from "../domain/node.ts";
import { LOOPS, type LoopName, type TakenStep } from "../scaler.ts";

export type ScalerMetrics = Disposable & {
  took(loop: LoopName, step: TakenStep): void;
  failed(loop: LoopName): void;
  round(loop: LoopName, tookMs: number, isFailure: boolean): void;
  booted(outcome: "started" | "short" | "failed", tookMs: number): void;
};

/** `nodes` is undefined while another replica leads: only the leader reports gauges, so that sums over replicas are right. */
export function startMetrics(nodes: () => readonly ScaledNode[] | undefined): ScalerMetrics {
  const meter = metrics.getMeter("@muster/node-scaler");
  const steps = meter.createCounter("muster.scaler.steps", { description: "Steps by loop, kind and reason" });
  const failures = meter.createCounter("muster.scaler.failures", { description: "What did not work, by loop" });
  // Exported at 0, so that an alert sees the first one as a rise.
  for (const loop of LOOPS) failures.add(0, { loop });
  const rounds = meter.createHistogram("muster.scaler.round", { unit: "ms", description: "Time of rounds, by loop" });
  const boots = meter.createHistogram("muster.scaler.boot", {
    unit: "ms",
    description: "Time until a provider answers",
  });
  const gauge = meter.createObservableGauge("muster.scaler.nodes", { description: "Nodes, by pool and phase" });
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const groups = Map.groupBy(nodes() ?? [], ({ spec, status }) => `${spec.pool}\n${status.phase}`);
    for (const [key, group] of groups) {
      const [pool = "", phase = ""] = key.split("\n");
      result.observe(gauge, group.length, { pool, phase });
    }
  };
  meter.addBatchObservableCallback(observe, [gauge]);
  return {
    // Reasons that a provider words itself are too many for a label.
    took: (loop, step) => steps.add(1, { loop, do: step.kind, ...(step.kind !== "mark" && { because: step.because }) }),
    failed: (loop) => failures.add(1, { loop }),
    round: (loop, tookMs, isFailure) => rounds.record(tookMs, { loop, failed: isFailure }),
    booted: (outcome, tookMs) => boots.record(tookMs, { outcome }),
    [Symbol.dispose]: () => meter.removeBatchObservableCallback(observe, [gauge]),
  };
}
