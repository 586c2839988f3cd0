import { metrics } from "@opentelemetry/api";

/** Metrics of one engine. Labels have few, fixed values. */
export type LeaseMetrics = Disposable & {
  /** A failure that is retried. */
  failed(what: string): void;
  /** A refusal, by the engine or by a source, that is retried rarely or never. */
  refused(what: string): void;
  /** An object that a lease has left behind. */
  leftOver(action: "suspect" | "remove", isDryRun: boolean): void;
  /** Number of leftovers that need confirmation; 0: none do. */
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
  /** Of the oldest leases: those with secrets that the key of the engine cannot open. */
  readonly unopened: number;
};

export function startMetrics(gauges: () => LeaseGauges): LeaseMetrics {
  const meter = metrics.getMeter("@muster/provision-engine");
  const failures = meter.createCounter("muster.lease.failures", { description: "Failures that are retried, by kind" });
  const refusals = meter.createCounter("muster.lease.refusals", { description: "Refusals, by kind" });
  const leftovers = meter.createCounter("muster.lease.leftovers", {
    description: "Objects left behind by leases, by action",
  });
  const held = meter.createGauge("muster.lease.cleanup_held", {
    description: "Leftover objects that stay until an operator confirms their removal",
  });
  const leases = meter.createObservableGauge("muster.lease.leases", { description: "Leases by phase" });
  const stuckLeases = meter.createObservableGauge("muster.lease.stuck", {
    description: "Leases that cannot be removed",
  });
  const unreadableLeases = meter.createObservableGauge("muster.lease.unreadable", {
    description: "Leases whose record cannot be read, which are not served and do not end",
  });
  const unopenedLeases = meter.createObservableGauge("muster.lease.unopened", {
    description: "Of the oldest ongoing leases: those with secrets that the key of the engine cannot open",
  });
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const { phases, stuck, unreadable, unopened } = gauges();
    for (const [phase, count] of phases) result.observe(leases, count, { phase });
    result.observe(stuckLeases, stuck);
    result.observe(unreadableLeases, unreadable);
    result.observe(unopenedLeases, unopened);
  };
  const observed = [leases, stuckLeases, unreadableLeases, unopenedLeases];
  meter.addBatchObservableCallback(observe, observed);
  return {
    failed: (what) => failures.add(1, { do: what }),
    refused: (what) => refusals.add(1, { do: what }),
    leftOver: (action, isDryRun) => leftovers.add(1, { do: action, dry_run: String(isDryRun) }),
    heldUp: (objects) => held.record(objects),
    [Symbol.dispose]: () => meter.removeBatchObservableCallback(observe, observed),
  };
}
