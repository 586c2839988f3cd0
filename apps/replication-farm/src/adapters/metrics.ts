import { metrics } from "@opentelemetry/api";

export type FarmMetrics = Disposable & {
  /** A change, a step or a wait that was planned; the words are few. */
  planned(what: string, because: string): void;
  failed(what: string): void;
  alerted(urgency: "HIGH" | "LOW"): void;
};

/** `owned`: how many sets this farm owns now; `unreadable`: how many records nobody can read, as far as it sees. */
export function startMetrics(owned: () => number, unreadable: () => number): FarmMetrics {
  const meter = metrics.getMeter("@muster/replication-farm");
  const steps = meter.createCounter("muster.farm.steps", { description: "What was planned, by kind and reason" });
  const failures = meter.createCounter("muster.farm.failures", { description: "What did not work, by kind" });
  const alerts = meter.createCounter("muster.farm.alerts", { description: "Alerts by urgency" });
  const sets = meter.createObservableGauge("muster.farm.sets", { description: "Replica sets that this farm owns" });
  const corrupt = meter.createObservableGauge("muster.farm.unreadable", {
    description: "Records of sets and rolling updates that cannot be read",
  });
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    result.observe(sets, owned());
    result.observe(corrupt, unreadable());
  };
  meter.addBatchObservableCallback(observe, [sets, corrupt]);
  return {
    planned: (what, because) => steps.add(1, { do: what, because }),
    failed: (what) => failures.add(1, { do: what }),
    alerted: (urgency) => alerts.add(1, { urgency }),
    [Symbol.dispose]: () => meter.removeBatchObservableCallback(observe, [sets, corrupt]),
  };
}
