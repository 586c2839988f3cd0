import { metrics } from "@opentelemetry/api";

/** Metrics of one engine. Attributes have few, fixed values. */
export type LeaseMetrics = Disposable & {
  /** Counts a failure that is retried. */
  failed(what: string): void;
  /** Counts a refusal by the engine or by a source, which is retried rarely or never. */
  refused(what: string): void;
  /** An object that a lease has left behind. */
  leftOver(action: "suspect" | "remove", isDryRun: boolean): void;
  /** Number of leftovers that need confirmation; 0: no leftover needs it. */
  heldUp(objects: number): void;
};

/** Gauges, read at each collection. */
type LeaseGauges = {
  /** Leases of the engine by phase. */
  readonly phases: ReadonlyMap<string, number>;
  /** Leases that cannot be removed. */
  readonly stuck: number;
  /** Records of any engine that cannot be read. */
  readonly unreadable: number;
  /** The number of the oldest leases with secrets that the key of the engine cannot open. */
  readonly unopened: number;
};

export function startMetrics(gauges: () => LeaseGauges): LeaseMetrics {
  const meter = metrics.getMeter("@muster/provision-engine");
  const failures = meter.createCounter("muster.lease.failures", {
    unit: "{failure}",
    description: "Failures that are retried, by operation",
  });
  const refusals = meter.createCounter("muster.lease.refusals", {
    unit: "{refusal}",
    description: "Refusals, by operation",
  });
  const leftovers = meter.createCounter("muster.lease.leftovers", {
    unit: "{object}",
    description: "Objects left behind by leases, by action",
  });
  const held = meter.createGauge("muster.lease.leftovers.held", {
    unit: "{object}",
    description: "Leftover objects that stay until an operator confirms their removal",
  });
  const leases = meter.createObservableGauge("muster.lease.active", {
    unit: "{lease}",
    description: "Leases by phase",
  });
  const stuckLeases = meter.createObservableGauge("muster.lease.stuck", {
    unit: "{lease}",
    description: "Leases that cannot be removed",
  });
  const unreadableLeases = meter.createObservableGauge("muster.lease.unreadable", {
    unit: "{lease}",
    description: "Leases whose record cannot be read, which are not served and do not end",
  });
  const unopenedLeases = meter.createObservableGauge("muster.lease.undecryptable", {
    unit: "{lease}",
    description: "Of the oldest ongoing leases: those with secrets that the key of the engine cannot open",
  });
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const { phases, stuck, unreadable, unopened } = gauges();
    for (const [phase, count] of phases) result.observe(leases, count, { "muster.lease.phase": phase });
    result.observe(stuckLeases, stuck);
    result.observe(unreadableLeases, unreadable);
    result.observe(unopenedLeases, unopened);
  };
  const observed = [leases, stuckLeases, unreadableLeases, unopenedLeases];
  meter.addBatchObservableCallback(observe, observed);
  return {
    failed: (what) => failures.add(1, { "muster.lease.operation": what }),
    refused: (what) => refusals.add(1, { "muster.lease.operation": what }),
    leftOver: (action, isDryRun) =>
      leftovers.add(1, { "muster.lease.action": action, "muster.lease.dry_run": String(isDryRun) }),
    heldUp: (objects) => held.record(objects),
    [Symbol.dispose]: () => meter.removeBatchObservableCallback(observe, observed),
  };
}
