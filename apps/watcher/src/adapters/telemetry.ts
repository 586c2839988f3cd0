import { metrics, SpanKind, type Span } from "@opentelemetry/api";
import { inSpan } from "@muster/tracing";
import type { PassPlan } from "../domain/plan-pass.ts";
import type { WriteOutcome } from "../keep-published.ts";

const NAME = "muster-watcher";
/** Maximum events of one span; attributes contain the counts of all steps. */
const STEPS_SHOWN = 100;

/** Runs the writes of one pass under a span that shows each step with its reason. */
export function runInPassSpan(
  plan: PassPlan,
  write: () => Promise<readonly WriteOutcome[]>,
): Promise<readonly WriteOutcome[]> {
  const attributes = { "muster.steps.pods": plan.pods.length, "muster.steps.nodes": plan.nodes.length };
  return inSpan(NAME, "publish", { kind: SpanKind.INTERNAL, attributes }, async (span) => {
    showSteps(span, plan);
    const outcomes = await write();
    for (const outcome of ["written", "lost", "failed", "refused"] as const) {
      span.setAttribute(`muster.steps.${outcome}`, outcomes.filter((each) => each === outcome).length);
    }
    return outcomes;
  });
}

function showSteps(span: Span, plan: PassPlan): void {
  if (!span.isRecording()) return;
  for (const step of [...plan.pods, ...plan.nodes].slice(0, STEPS_SHOWN)) {
    span.addEvent("step", { do: step.kind, key: step.key, because: step.because });
  }
}

/** Counts the outcome of each write, and reports the ages of the views. Disposing stops the gauge. */
export function makeWatcherMetrics(ages: { readonly pods: () => number; readonly nodes: () => number }): Disposable & {
  wrote(bucket: "pods" | "nodes", because: string, outcome: WriteOutcome): void;
} {
  const meter = metrics.getMeter(NAME);
  const publishes = meter.createCounter("muster.watcher.publishes", {
    unit: "{write}",
    description: "Writes of states of pods and nodes, by bucket, reason and outcome",
  });
  const age = meter.createObservableGauge("muster.watcher.view.age", {
    description: "Time since the last event or answer of the API server, by resource",
    unit: "s",
  });
  const observe = (result: {
    observe(value: number, attributes: { readonly "muster.watcher.resource": string }): void;
  }): void => {
    result.observe(ages.pods() / 1000, { "muster.watcher.resource": "pods" });
    result.observe(ages.nodes() / 1000, { "muster.watcher.resource": "nodes" });
  };
  age.addCallback(observe);
  return {
    wrote: (bucket, because, outcome) =>
      publishes.add(1, {
        "muster.watcher.bucket": bucket,
        "muster.watcher.reason": because,
        "muster.watcher.outcome": outcome,
      }),
    [Symbol.dispose]: () => age.removeCallback(observe),
  };
}
