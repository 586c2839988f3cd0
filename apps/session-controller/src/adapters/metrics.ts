import { metrics } from "@opentelemetry/api";
import { eventOf, type SessionRecord } from "../domain/session.ts";

export type SessionMetrics = {
  /** Runs the work as one session in hand. */
  inHand<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Counts a stored session that does not decode. */
  unreadable(): void;
  /** Counts one outcome, and how long the session waited and ran. */
  finished(record: SessionRecord): void;
};

export function sessionMetrics(): SessionMetrics {
  const meter = metrics.getMeter("@muster/session-controller");
  const inHand = meter.createUpDownCounter("muster.session.in_hand", {
    description: "Sessions that this replica runs",
  });
  const unreadable = meter.createCounter("muster.session.unreadable", {
    description: "Times that a stored session did not decode",
  });
  // From 0 on: an alert sees the first as a rise.
  unreadable.add(0);
  const outcomes = meter.createCounter("muster.session.outcomes", { description: "Finished sessions by outcome" });
  const phases = meter.createHistogram("muster.session.phase", { unit: "ms", description: "Time in a phase" });
  return {
    inHand: async (work) => {
      inHand.add(1);
      try {
        return await work();
      } finally {
        inHand.add(-1);
      }
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
