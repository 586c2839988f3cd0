import { metrics } from "@opentelemetry/api";

/** What one engine counts. Labels are one of a few words. */
export type LeaseMetrics = {
  /** Something that did not work and is tried again. */
  failed(what: string): void;
  /** Something that was refused, by us or by a source, and is told no more, or seldom. */
  refused(what: string): void;
};

export function startMetrics(): LeaseMetrics {
  const meter = metrics.getMeter("@muster/provision-engine");
  const failures = meter.createCounter("muster.lease.failures", { description: "What did not work, by kind" });
  const refusals = meter.createCounter("muster.lease.refusals", { description: "What was refused, by kind" });
  return {
    failed: (what) => failures.add(1, { do: what }),
    refused: (what) => refusals.add(1, { do: what }),
  };
}
