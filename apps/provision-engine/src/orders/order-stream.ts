import { consumeEvents, type Bus } from "@muster/bus";
import { describeFault, FaultError, isRetryable } from "@muster/faults";
import { findUnsealed, type Order } from "@muster/leases";
import { muster, streams, subjects } from "@muster/proto";
import { toOrder } from "@muster/leases/wire";
import { refuseOrder } from "../domain/decide-order.ts";
import { buildResult } from "../domain/build-result.ts";
import { SOURCES } from "../domain/lease.ts";
import { deferredMessages } from "./deferred-messages.ts";
import { takeOrder, type Ordered, type RequestDeps } from "./requests.ts";
import type { ReportDeps } from "../lead/report-lease.ts";

export type OrderStreamDeps = {
  readonly bus: Bus;
  readonly requests: RequestDeps;
  readonly feedback: ReportDeps["feedback"];
  readonly sign: ReportDeps["sign"];
  readonly onRetry: (error: unknown) => void;
  readonly signal: AbortSignal;
};

const SOURCE = SOURCES.stream;
const AREA = "lease";
const MAX_IN_FLIGHT = 64;
const ACK_WAIT_MS = 30_000;
/** Between two attempts of what its user may not have yet. */
const DEFER_MS = 10_000;
/** Orders that wait for that, of those that this process was given: more of them are refused. */
const MAX_DEFERRED = 1000;
/** What its user sent before waits in this process. */
const BEHIND_EARLIER: Ordered = refuseOrder({
  code: "limit_exceeded",
  what: "orders that wait in the engine",
  limit: MAX_DEFERRED,
  retryAfterMs: DEFER_MS,
});

/**
 * Takes orders from their stream, for senders that do not wait for an answer: each stays there until it is written down. What is refused goes to the dead letters, and
 * its sender is told why, where its signature says that he sent it. What its user may not have yet stays until he may, and what he
 * sent after it stays behind it where this process was given both.
 */
export async function consumeOrders({
  bus,
  requests,
  feedback,
  sign,
  onRetry,
  signal,
}: OrderStreamDeps): Promise<AsyncDisposable> {
  const { engine } = requests.policy;
  await bus.ensureStream(streams.leaseOrders);
  // What comes back does so after one pause; a second one is for the way.
  const deferred = deferredMessages({ maxMessages: MAX_DEFERRED, forMs: 2 * DEFER_MS });
  return consumeEvents(
    bus,
    {
      stream: streams.leaseOrders.name,
      durable: `lease-orders-${engine}`,
      subject: subjects.ordersOfEngine(engine),
      maxInFlight: MAX_IN_FLIGHT,
      ackWaitMs: ACK_WAIT_MS,
      area: AREA,
      signal,
      onRetry: ({ error }) => onRetry(error),
    },
    muster.provision.v1.Order,
    async (sent, delivery) => {
      const order = readOrder(sent);
      if (order === undefined) {
        delivery.giveUp("the data of the order are no text");
        return;
      }
      const message = { sequence: delivery.sequence, user: order.user };
      const ordered = deferred.isBehind(message, Date.now())
        ? BEHIND_EARLIER
        : await takeOrder(requests, { order, requestId: "", source: SOURCE, dryRun: false });
      if (!("fault" in ordered)) {
        deferred.done(message.sequence);
        return;
      }
      const wait = isRetryable(ordered.fault) ? deferred.defer(message, Date.now()) : "refused";
      if (wait === "deferred") onRetry(new FaultError(ordered.fault));
      if (wait !== "refused") {
        delivery.retry(DEFER_MS);
        return;
      }
      deferred.done(message.sequence);
      if (ordered.answer !== "nothing") {
        const { id, createdNs } = order;
        const error = describeFault(ordered.fault);
        const result = ordered.answer === "error" ? sign(buildResult(order, { error }, requests.nowNs())) : undefined;
        // Nothing was stored of it, so that no later answer can have the number of this one.
        await feedback({ id, createdNs, source: SOURCE, number: 0, result, deleted: true });
      }
      // Whatever it is refused for: dead letters are read by many.
      const keep = findUnsealed("order", order) === undefined ? "message" : "reason";
      delivery.giveUp(describeFault(ordered.fault), keep);
    },
  );
}

function readOrder(message: muster.provision.v1.Order): Order | undefined {
  try {
    return toOrder(message);
  } catch {
    return undefined;
  }
}
