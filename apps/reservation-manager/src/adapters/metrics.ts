import { metrics } from "@opentelemetry/api";
import type { DecisionOutcome } from "../decision-spans.ts";

type LedgerCounts = {
  readonly waiting: number;
  readonly heldByPool: ReadonlyMap<string, number>;
  /** Of every pool, so that the number falls to 0. */
  readonly overcommittedByPool: ReadonlyMap<string, number>;
};

export type LedgerMetrics = Disposable & {
  /** Counts one decision. */
  decided(outcome: DecisionOutcome): void;
};

/** `counts` is undefined while another replica leads: only the leader reports gauges, so that sums over replicas are right. */
export function startMetrics(counts: () => LedgerCounts | undefined): LedgerMetrics {
  const meter = metrics.getMeter("@muster/reservation-manager");
  const decisions = meter.createCounter("muster.reservation.decisions", {
    unit: "{decision}",
    description: "Decisions by outcome",
  });
  const waiting = meter.createObservableGauge("muster.reservation.waiting", {
    unit: "{request}",
    description: "Requests that wait",
  });
  const held = meter.createObservableGauge("muster.reservation.held", {
    unit: "{machine}",
    description: "Usable machines held, tainted ones included, by pool",
  });
  const overcommitted = meter.createObservableGauge("muster.reservation.overcommitted", {
    unit: "{machine}",
    description: "Granted machines that foreign pods over-commit, by pool",
  });
  const gauges = [waiting, held, overcommitted];
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const now = counts();
    if (now === undefined) return;
    result.observe(waiting, now.waiting);
    for (const [pool, count] of now.heldByPool) result.observe(held, count, { "muster.pool": pool });
    for (const [pool, count] of now.overcommittedByPool) result.observe(overcommitted, count, { "muster.pool": pool });
  };
  meter.addBatchObservableCallback(observe, gauges);
  return {
    decided: (outcome) => decisions.add(1, { "muster.reservation.outcome": outcome }),
    [Symbol.dispose]: () => {
      meter.removeBatchObservableCallback(observe, gauges);
    },
  };
}
