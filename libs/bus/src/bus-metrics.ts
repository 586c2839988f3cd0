import { metrics, type Counter } from "@opentelemetry/api";

/** State of a durable consumer at a scrape. All replicas that share it report the same values. */
export type ConsumerState = { readonly waiting: number; readonly unacknowledged: number; readonly redelivered: number };

type BusMetrics = {
  /** Counts signals that a slow listener lost. */
  readonly dropped: (subject: string, count: number) => void;
  /** Counts a request that was refused before it was decoded. `MAX_USERS` bounds the number of users. */
  readonly refused: (service: string, reason: "rate" | "busy" | "reply", user: string) => void;
  /** Observes the consumer at each scrape, until the returned function is called. */
  readonly observe: (stream: string, durable: string, look: () => Promise<ConsumerState | undefined>) => () => void;
};

/**
 * Creates the instruments once per connection, after telemetry has started. Attributes name only streams, consumers and patterns of subjects, so their number
 * is bounded.
 */
export function makeBusMetrics(): BusMetrics {
  const meter = metrics.getMeter("@muster/bus");
  const dropped = meter.createCounter("muster.bus.signals.dropped", {
    unit: "{message}",
    description: "Signals that a listener was too slow for, by pattern of the subject",
  });
  const refused = meter.createCounter("muster.bus.requests.refused", {
    unit: "{request}",
    description:
      "Requests refused unread, by service and user: above the rate (rate), at the limit in flight (busy), or with an answer outside inboxes (reply)",
  });
  const gauges = {
    waiting: meter.createObservableGauge("muster.bus.consumer.waiting", {
      unit: "{message}",
      description: "Messages of the stream that the consumer has not delivered yet: its lag",
    }),
    unacknowledged: meter.createObservableGauge("muster.bus.consumer.unacknowledged", {
      unit: "{message}",
      description: "Messages in flight or waiting for their next attempt, in all replicas",
    }),
    redelivered: meter.createObservableGauge("muster.bus.consumer.redelivered", {
      unit: "{message}",
      description: "Messages that were delivered more than once and have not ended",
    }),
  };
  const all = Object.values(gauges);
  // Starts the counter at 0, so that an alert sees the first refusal as an increase.
  for (const refused of REFUSED) refusals().add(0, { "muster.bus.refused": refused });
  return {
    dropped: (subject, count) => {
      dropped.add(count, { "messaging.destination.template": subject });
    },
    refused: (service, reason, user) => {
      refused.add(1, { "rpc.service": service, "muster.bus.reason": reason, "muster.bus.user": user });
    },
    observe: (stream, durable, look) => {
      const attributes = { "messaging.destination.name": stream, "messaging.consumer.group.name": durable };
      const read: Parameters<typeof meter.addBatchObservableCallback>[0] = async (result) => {
        const state = await look();
        if (state === undefined) return;
        result.observe(gauges.waiting, state.waiting, attributes);
        result.observe(gauges.unacknowledged, state.unacknowledged, attributes);
        result.observe(gauges.redelivered, state.redelivered, attributes);
      };
      meter.addBatchObservableCallback(read, all);
      return () => {
        meter.removeBatchObservableCallback(read, all);
      };
    },
  };
}

const REFUSED = ["credential", "certificate", "publish", "subscription"] as const;

/** Counts a refusal: of our credential, a message or a subscription by the server, or of its certificate by us. Also counts before the first connection. */
export function countRefusal(what: (typeof REFUSED)[number]): void {
  refusals().add(1, { "muster.bus.refused": what });
}

function refusals(): Counter {
  return metrics.getMeter("@muster/bus").createCounter("muster.bus.refusals", {
    unit: "{refusal}",
    description:
      "What the server has refused: this service's credential, or a subject that it may not use; or its certificate, by us",
  });
}
