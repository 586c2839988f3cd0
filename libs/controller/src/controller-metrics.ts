import { metrics, type Attributes, type BatchObservableCallback } from "@opentelemetry/api";
import type { WorkQueue } from "./work-queue.ts";

/** The end of a pass: `error` is retried with back-off, `requeue` set the time of the next pass, `stopped` was aborted. */
export type PassOutcome = "success" | "requeue" | "error" | "stopped";

export type ControllerMetrics = {
  passed(outcome: PassOutcome, seconds: number): void;
  /** Called after a resync has added every known key. */
  resynced(): void;
  /** Stops observing this queue. */
  stop(): void;
};

const PASS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60];

/** Records how long the passes of a controller, or the rounds of periodic work, take. */
export function makePassDurations(controller: string): ControllerMetrics["passed"] {
  const passes = metrics.getMeter("@muster/controller").createHistogram("muster.controller.pass.duration", {
    unit: "s",
    description: "Time that a pass took",
    advice: { explicitBucketBoundaries: PASS_SECONDS },
  });
  return (outcome, seconds) =>
    passes.record(seconds, { "muster.controller.name": controller, "muster.controller.outcome": outcome });
}

/** The metrics of client-go's work queue and controller-runtime's controller, by @opentelemetry/api. Attributes: the controller's name and the outcome. */
export function makeControllerMetrics(controller: string, queue: WorkQueue): ControllerMetrics {
  const meter = metrics.getMeter("@muster/controller");
  const labels: Attributes = { "muster.controller.name": controller };
  const resyncs = meter.createCounter("muster.controller.resyncs", {
    unit: "{resync}",
    description: "Periods in which every key was added again",
  });
  const ready = meter.createObservableGauge("muster.controller.queue.depth", {
    unit: "{key}",
    description: "Keys that wait for a worker",
  });
  const delayed = meter.createObservableGauge("muster.controller.queue.delayed", {
    unit: "{key}",
    description: "Keys whose time is to come",
  });
  const inWork = meter.createObservableGauge("muster.controller.queue.in_flight", {
    unit: "{key}",
    description: "Keys that a worker has",
  });
  const adds = meter.createObservableCounter("muster.controller.queue.adds", {
    unit: "{key}",
    description: "Keys put into the queue",
  });
  const dones = meter.createObservableCounter("muster.controller.queue.done", {
    unit: "{key}",
    description: "Keys that workers were done with",
  });
  const retries = meter.createObservableCounter("muster.controller.queue.retries", {
    unit: "{key}",
    description: "Keys put back after an error",
  });
  const waited = meter.createObservableCounter("muster.controller.queue.wait.time", {
    unit: "s",
    description: "Sum of the time that keys waited for a worker",
  });
  const instruments = [ready, delayed, inWork, adds, dones, retries, waited];
  const observe: BatchObservableCallback = (result) => {
    const stats = queue.stats();
    result.observe(ready, stats.ready, labels);
    result.observe(delayed, stats.delayed, labels);
    result.observe(inWork, stats.inWork, labels);
    result.observe(adds, stats.adds, labels);
    result.observe(dones, stats.dones, labels);
    result.observe(retries, stats.retries, labels);
    result.observe(waited, stats.waitedMs / 1000, labels);
  };
  meter.addBatchObservableCallback(observe, instruments);
  return {
    passed: makePassDurations(controller),
    resynced: () => resyncs.add(1, labels),
    stop: () => meter.removeBatchObservableCallback(observe, instruments),
  };
}
