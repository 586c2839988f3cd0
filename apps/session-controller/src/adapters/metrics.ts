import { metrics, type ObservableCallback } from "@opentelemetry/api";
import { findEvent, type SessionRecord } from "../domain/session.ts";

export type SessionMetrics = {
  /** Observes the number of sessions that this replica runs. Returns the function that stops it. */
  observeRunning(count: () => number): () => void;
  /** Counts a stored session that does not decode. */
  unreadable(): void;
  /** Counts one finished session by its outcome, and records its wait time and run time. */
  finished(record: SessionRecord): void;
};

const PHASE_SECONDS = [0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600];

export function makeSessionMetrics(): SessionMetrics {
  const meter = metrics.getMeter("@muster/session-controller");
  const running = meter.createObservableGauge("muster.session.running", {
    unit: "{session}",
    description: "Sessions that this replica runs",
  });
  const unreadable = meter.createCounter("muster.session.unreadable", {
    unit: "{record}",
    description: "Times that a stored session did not decode",
  });
  // The counter starts at 0, so that alerts observe an increase at the first unreadable record.
  unreadable.add(0);
  const outcomes = meter.createCounter("muster.session.outcomes", {
    unit: "{session}",
    description: "Finished sessions by outcome and reason",
  });
  const phases = meter.createHistogram("muster.session.phase.duration", {
    unit: "s",
    description: "Time in a phase, by phase",
    advice: { explicitBucketBoundaries: PHASE_SECONDS },
  });
  const spent = (phase: string, ms: number): void => phases.record(ms / 1000, { "muster.session.phase": phase });
  return {
    observeRunning: (count) => {
      const observe: ObservableCallback = (result) => result.observe(count());
      running.addCallback(observe);
      return () => running.removeCallback(observe);
    },
    unreadable: () => {
      unreadable.add(1);
    },
    finished: (record) => {
      const { verdict, createdAtMs, finishedAtMs } = record;
      if (verdict === undefined) return;
      outcomes.add(1, { "muster.session.outcome": verdict.kind, "muster.session.reason": verdict.reason });
      const accepted = findEvent(record, "ACCEPT");
      const run = findEvent(record, "RUN");
      spent("queue", (accepted?.atMs ?? verdict.atMs) - createdAtMs);
      if (accepted !== undefined) spent("provision", (run ?? verdict).atMs - accepted.atMs);
      if (run !== undefined) spent("run", verdict.atMs - run.atMs);
      spent("clean_up", finishedAtMs - verdict.atMs);
    },
  };
}
