import { metrics } from "@opentelemetry/api";

/** What one engine counts. Labels are one of a few words. */
export type LeaseMetrics = Disposable & {
  /** Something that did not work and is tried again. */
  failed(what: string): void;
  /** Something that was refused, by us or by a source, and is told no more, or seldom. */
  refused(what: string): void;
  /** An object that a lease has left behind. */
  leftOver(action: "suspect" | "remove", isDryRun: boolean): void;
  /** So many objects look left over that clean-up asks first; 0: it does not. */
  heldUp(objects: number): void;
};

/** What is asked for whenever somebody looks. */
export type LeaseGauges = {
  /** How many leases of the engine are in each phase. */
  readonly phases: ReadonlyMap<string, number>;
  /** How many cannot be taken down. */
  readonly stuck: number;
  /** How many have a record that nobody can read, of whichever engine they are. */
  readonly unreadable: number;
  /** How many of the oldest have secrets that cannot be opened with the key of the engine. */
  readonly unopened: number;
};

export function startMetrics(gauges: () => LeaseGauges): LeaseMetrics {
  const meter = metrics.getMeter("@muster/provision-engine");
  const failures = meter.createCounter("muster.lease.failures", { description: "What did not work, by kind" });
  const refusals = meter.createCounter("muster.lease.refusals", { description: "What was refused, by kind" });
  const leftovers = meter.createCounter("muster.lease.leftovers", {
    description: "Objects that leases have left behind, by what was done with them",
  });
  const held = meter.createGauge("muster.lease.cleanup_held", {
    description: "Objects that look left over and stay until somebody confirms that they may go",
  });
  const leases = meter.createObservableGauge("muster.lease.leases", { description: "Leases by phase" });
  const stuckLeases = meter.createObservableGauge("muster.lease.stuck", {
    description: "Leases that cannot be taken down",
  });
  const unreadableLeases = meter.createObservableGauge("muster.lease.unreadable", {
    description: "Leases whose record cannot be read: nothing is done for them, nor at their end",
  });
  const unopenedLeases = meter.createObservableGauge("muster.lease.unopened", {
    description:
      "Of the oldest leases that go on: those with secrets that cannot be opened with the key that the engine has now",
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
