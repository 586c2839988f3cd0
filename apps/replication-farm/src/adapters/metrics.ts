import { metrics } from "@opentelemetry/api";

const URGENCIES = ["HIGH", "LOW"] as const;
type Urgency = (typeof URGENCIES)[number];

export type FarmMetrics = Disposable & {
  /** Counts a planned change, step or wait; `what` and `because` have few values. */
  planned(what: string, because: string): void;
  failed(what: string): void;
  alerted(urgency: Urgency): void;
};

/** Read at each collection; every farm sees all sets. */
export type FarmGauges = {
  /** Sets that this farm owns. */
  readonly owned: () => number;
  /** Unreadable records. */
  readonly unreadable: () => number;
  /** Sets with a trouble of this urgency, of all owners. */
  readonly troubled: (urgency: Urgency) => number;
};

export function startMetrics({ owned, unreadable, troubled }: FarmGauges): FarmMetrics {
  const meter = metrics.getMeter("@muster/replication-farm");
  const steps = meter.createCounter("muster.farm.steps", { description: "What was planned, by kind and reason" });
  const failures = meter.createCounter("muster.farm.failures", { description: "What did not work, by kind" });
  const alerts = meter.createCounter("muster.farm.alerts", { description: "Alerts by urgency" });
  const sets = meter.createObservableGauge("muster.farm.sets", { description: "Replica sets that this farm owns" });
  const corrupt = meter.createObservableGauge("muster.farm.unreadable", {
    description: "Records of sets and rolling updates that cannot be read",
  });
  const troubles = meter.createObservableGauge("muster.farm.troubled", {
    description: "Replica sets that are in trouble, by urgency",
  });
  // Starts at 0, so that alert rules see the first one as an increase.
  for (const urgency of URGENCIES) alerts.add(0, { urgency });
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    result.observe(sets, owned());
    result.observe(corrupt, unreadable());
    for (const urgency of URGENCIES) result.observe(troubles, troubled(urgency), { urgency });
  };
  const observed = [sets, corrupt, troubles];
  meter.addBatchObservableCallback(observe, observed);
  return {
    planned: (what, because) => steps.add(1, { do: what, because }),
    failed: (what) => failures.add(1, { do: what }),
    alerted: (urgency) => alerts.add(1, { urgency }),
    [Symbol.dispose]: () => meter.removeBatchObservableCallback(observe, observed),
  };
}
