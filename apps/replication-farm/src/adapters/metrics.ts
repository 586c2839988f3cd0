import { metrics } from "@opentelemetry/api";

const URGENCIES = ["HIGH", "LOW"] as const;
type Urgency = (typeof URGENCIES)[number];

export type FarmMetrics = Disposable & {
  /** A change, a step or a wait that was planned; the words are few. */
  planned(what: string, because: string): void;
  failed(what: string): void;
  alerted(urgency: Urgency): void;
};

/** What is asked for whenever somebody looks; every farm sees all sets. */
export type FarmGauges = {
  /** How many sets this farm owns now. */
  readonly owned: () => number;
  /** How many records nobody can read. */
  readonly unreadable: () => number;
  /** How many sets are in a trouble of this urgency, whoever owns them. */
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
  // From 0 on: an alert sees the first of them as a rise.
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
