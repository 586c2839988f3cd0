import { metrics, type ObservableCallback } from "@opentelemetry/api";
import { eventOf, type SessionRecord } from "../domain/session.ts";

export type SessionMetrics = {
  /** Observes the number of sessions that this replica runs. Returns the function that stops it. */
  observeRunning(count: () => number): () => void;
  /** Counts a stored session that does not decode. */
  unreadable(): void;
  /** Counts one outcome, with the times that the session waited and ran. */
  finished(record: SessionRecord): void;
};

export function sessionMetrics(): SessionMetrics {
  const meter = metrics.getMeter("@muster/session-controller");
  const running = meter.createObservableGauge("muster.session.running", {
    description: "Sessions that this replica runs",
  });
  const unreadable = meter.createCounter("muster.session.unreadable", {
    description: "Times that a stored session did not decode",
  });
  // Starts at 0, so that alerts see the first one as an increase.
  unreadable.add(0);
  const outcomes = meter.createCounter("muster.session.outcomes", { description: "Finished sessions by outcome" });
  const phases = meter.createHistogram("muster.session.phase", { unit: "ms", description: "Time in a phase" });
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
      outcomes.add(1, { outcome: verdict.kind, reason: verdict.reason });
      const accepted = eventOf(record, "ACCEPT");
      const run = eventOf(record, "RUN");
      phases.record((accepted?.atMs ?? verdict.atMs) - createdAtMs, { phase: "queue" });
      if (accepted !== undefined) phases.record((run ?? verdict).atMs - accepted.atMs, { phase: "provision" });
      if (run !== undefined) phases.record(verdict.atMs - run.atMs, { phase: "run" });
      phases.record(finishedAtMs - verdict.atMs, { phase: "clean up" });
    },
  };
}
