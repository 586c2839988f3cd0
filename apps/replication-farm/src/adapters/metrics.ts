import { metrics } from "@opentelemetry/api";

const URGENCIES = ["HIGH", "LOW"] as const;
type Urgency = (typeof URGENCIES)[number];

export type FarmMetrics = Disposable & {
  /** Counts a planned change, step or wait; `what` and `because` have few values. */
  planned(what: string, because: string): void;
  failed(what: string): void;
  alerted(urgency: Urgency): void;
};

/** Gauges that each collection reads; every farm sees all sets. */
export type FarmGauges = {
  /** Sets that this farm owns. */
  readonly owned: () => number;
  /** Unreadable records. */
  readonly unreadable: () => number;
  /** Sets of all owners with a trouble of this urgency. */
  readonly troubled: (urgency: Urgency) => number;
};

export function startMetrics({ owned, unreadable, troubled }: FarmGauges): FarmMetrics {
  const meter = metrics.getMeter("@muster/replication-farm");
  const steps = meter.createCounter("muster.farm.steps", {
    unit: "{step}",
    description: "Planned steps, by kind and reason",
  });
  const failures = meter.createCounter("muster.farm.failures", {
    unit: "{failure}",
    description: "Failed steps, by operation",
  });
  const alerts = meter.createCounter("muster.farm.alerts", { unit: "{alert}", description: "Alerts by urgency" });
  const sets = meter.createObservableGauge("muster.farm.sets", {
    unit: "{set}",
    description: "Replica sets that this farm owns",
  });
  const corrupt = meter.createObservableGauge("muster.farm.unreadable", {
    unit: "{record}",
    description: "Records of sets and rolling updates that cannot be read",
  });
  const troubles = meter.createObservableGauge("muster.farm.troubled", {
    unit: "{set}",
    description: "Replica sets that are in trouble, by urgency",
  });
  // Starts at 0, so that alert rules see the first alert as an increase.
  for (const urgency of URGENCIES) alerts.add(0, { "muster.farm.urgency": urgency });
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    result.observe(sets, owned());
    result.observe(corrupt, unreadable());
    for (const urgency of URGENCIES) result.observe(troubles, troubled(urgency), { "muster.farm.urgency": urgency });
  };
  const observed = [sets, corrupt, troubles];
  meter.addBatchObservableCallback(observe, observed);
  return {
    planned: (what, because) => steps.add(1, { "muster.farm.step": what, "muster.farm.reason": because }),
    failed: (what) => failures.add(1, { "muster.farm.operation": what }),
    alerted: (urgency) => alerts.add(1, { "muster.farm.urgency": urgency }),
    [Symbol.dispose]: () => meter.removeBatchObservableCallback(observe, observed),
  };
}
