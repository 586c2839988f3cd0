import { metrics } from "@opentelemetry/api";
import type { ScaledNode } from "../domain/node.ts";
import { LOOPS, type LoopName, type TakenStep } from "../scaler.ts";

export type ScalerMetrics = Disposable & {
  took(loop: LoopName, step: TakenStep): void;
  failed(loop: LoopName): void;
  round(loop: LoopName, tookMs: number, isFailure: boolean): void;
  booted(outcome: "started" | "short" | "failed", tookMs: number): void;
};

const ROUND_SECONDS = [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];
const BOOT_SECONDS = [0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600];

/** Starts the metrics. `nodes` is undefined while another replica leads. Only the leader reports gauges, so that sums over replicas are correct. */
export function startMetrics(nodes: () => readonly ScaledNode[] | undefined): ScalerMetrics {
  const meter = metrics.getMeter("@muster/node-scaler");
  const steps = meter.createCounter("muster.scaler.steps", {
    unit: "{step}",
    description: "Steps by loop, kind and reason",
  });
  const failures = meter.createCounter("muster.scaler.failures", {
    unit: "{failure}",
    description: "Failed steps, by loop",
  });
  // The counter is exported at 0, so that an alert detects the first failure as an increase.
  for (const loop of LOOPS) failures.add(0, { "muster.scaler.loop": loop });
  const rounds = meter.createHistogram("muster.scaler.round.duration", {
    unit: "s",
    description: "Time of a round, by loop and outcome",
    advice: { explicitBucketBoundaries: ROUND_SECONDS },
  });
  const boots = meter.createHistogram("muster.scaler.boot.duration", {
    unit: "s",
    description: "Time until a provider answers, by outcome",
    advice: { explicitBucketBoundaries: BOOT_SECONDS },
  });
  const gauge = meter.createObservableGauge("muster.scaler.nodes", {
    unit: "{node}",
    description: "Nodes, by pool and phase",
  });
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const groups = Map.groupBy(nodes() ?? [], ({ spec, status }) => `${spec.pool}\n${status.phase}`);
    for (const [key, group] of groups) {
      const [pool = "", phase = ""] = key.split("\n");
      result.observe(gauge, group.length, { "muster.pool": pool, "muster.node.phase": phase });
    }
  };
  meter.addBatchObservableCallback(observe, [gauge]);
  return {
    took: (loop, step) =>
      steps.add(1, {
        "muster.scaler.loop": loop,
        "muster.scaler.step": step.kind,
        "muster.scaler.reason": step.because,
      }),
    failed: (loop) => failures.add(1, { "muster.scaler.loop": loop }),
    round: (loop, tookMs, isFailure) => {
      const outcome = isFailure ? "error" : "success";
      rounds.record(tookMs / 1000, { "muster.scaler.loop": loop, "muster.scaler.outcome": outcome });
    },
    booted: (outcome, tookMs) => boots.record(tookMs / 1000, { "muster.scaler.outcome": outcome }),
    [Symbol.dispose]: () => meter.removeBatchObservableCallback(observe, [gauge]),
  };
}
