import { metrics, type BatchObservableResult, type Meter } from "@opentelemetry/api";
import type { DecisionOutcome } from "../decision-spans.ts";
import type { QueueReport } from "../domain/decisions/list-queues.ts";
import type { PreemptionNews } from "../domain/follow-preemptions.ts";
import { parsePair } from "../domain/ledger/queue.ts";

type LedgerCounts = {
  readonly waiting: number;
  readonly heldByPool: ReadonlyMap<string, number>;
  /** Overcommitted machines of every pool, including pools with 0, so that the gauge falls back to 0. */
  readonly overcommittedByPool: ReadonlyMap<string, number>;
  readonly queues: readonly QueueReport[];
};

export type LedgerMetrics = Disposable & {
  decided(outcome: DecisionOutcome): void;
  preemption(news: PreemptionNews): void;
};

/** Histogram buckets. A preemption lasts as long as the grace of the preempted work, up to one hour. */
const PREEMPTION_SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600];

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
  const preemption = startPreemptionMetrics(meter);
  const queues = startQueueGauges(meter);
  const gauges = [waiting, held, overcommitted, ...queues.gauges];
  const observe: Parameters<typeof meter.addBatchObservableCallback>[0] = (result) => {
    const now = counts();
    if (now === undefined) return;
    result.observe(waiting, now.waiting);
    for (const [pool, count] of now.heldByPool) result.observe(held, count, { "muster.pool": pool });
    for (const [pool, count] of now.overcommittedByPool) result.observe(overcommitted, count, { "muster.pool": pool });
    for (const report of now.queues) queues.observe(result, report);
  };
  meter.addBatchObservableCallback(observe, gauges);
  return {
    decided: (outcome) => decisions.add(1, { "muster.reservation.outcome": outcome }),
    preemption,
    [Symbol.dispose]: () => {
      meter.removeBatchObservableCallback(observe, gauges);
    },
  };
}

function startPreemptionMetrics(meter: Meter): LedgerMetrics["preemption"] {
  const steps = meter.createCounter("muster.preemption.steps", {
    unit: "{step}",
    description: "Steps of preemptions (planned, accepted, withdrawn, requeued, ended), by reason",
  });
  const duration = meter.createHistogram("muster.preemption.duration", {
    unit: "s",
    description: "Time from the first request to leave until the beneficiary has its machines, by reason",
    advice: { explicitBucketBoundaries: PREEMPTION_SECONDS },
  });
  const limited = meter.createCounter("muster.preemption.limited", {
    unit: "{pass}",
    description: "Passes in which a limit kept a request from preempting work, by limit",
  });
  return (news) => {
    if (news.kind === "limited") limited.add(1, { "muster.preemption.limit": news.limit });
    else if (news.kind === "served") duration.record(news.tookMs / 1000, { "muster.preemption.reason": news.reason });
    else steps.add(1, { "muster.preemption.step": news.kind, "muster.preemption.reason": news.reason });
  };
}

type Amounts = ReadonlyMap<string, number>;

function startQueueGauges(meter: Meter) {
  const waiting = meter.createObservableGauge("muster.queue.waiting", {
    unit: "{request}",
    description: "Requests that wait, by queue",
  });
  const granted = meter.createObservableGauge("muster.queue.granted", {
    unit: "{reservation}",
    description: "Granted reservations, by queue",
  });
  const used = meter.createObservableGauge("muster.queue.used", {
    unit: "{amount}",
    description: "Amounts in use, by queue, pool and resource; cpu in cores",
  });
  const quota = meter.createObservableGauge("muster.queue.quota", {
    unit: "{amount}",
    description: "Quota with that of the queues below, by queue, pool and resource; cpu in cores",
  });
  return {
    gauges: [waiting, granted, used, quota],
    observe: (result: BatchObservableResult, report: QueueReport) => {
      const queue = { "muster.queue": report.queue.name };
      result.observe(waiting, report.pending, queue);
      result.observe(granted, report.admitted, queue);
      const observe = (observable: typeof used, amounts: Amounts): void => {
        for (const [pair, amount] of amounts) {
          const { pool, resource } = parsePair(pair);
          const value = resource === "cpu" ? amount / 1000 : amount;
          result.observe(observable, value, { ...queue, "muster.pool": pool, "muster.resource": resource });
        }
      };
      // A resource with a quota but no use reports 0.
      observe(used, new Map([...[...report.quota.keys()].map((pair) => [pair, 0] as const), ...report.used]));
      observe(quota, report.quota);
    },
  };
}
