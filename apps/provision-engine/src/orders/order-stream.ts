import { consumeEvents, type Bus } from "@muster/bus";
import { describeFault, FaultError, isRetryable } from "@muster/faults";
import { findUnsealed, type Order } from "@muster/leases";
import { muster, streams, subjects } from "@muster/proto";
import { toOrder } from "@muster/leases/wire";
import { refuseOrder } from "../domain/decide-order.ts";
import { buildResult } from "../domain/signed-content.ts";
import { SOURCES } from "../domain/lease.ts";
import { makeDeferredMessages } from "./waiting-orders.ts";
import { takeOrder, type OrderResult, type RequestDeps } from "./requests.ts";
import type { ReportDeps } from "../lead/report-lease.ts";

type OrderStreamDeps = {
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
/** Pause between attempts of an order that exceeds a limit of its user. */
const DEFER_MS = 10_000;
/** Maximum number of orders of this process that are deferred; more are refused. */
const MAX_DEFERRED = 1000;
/** An earlier order of the same user is deferred in this process. */
const BEHIND_EARLIER: OrderResult = refuseOrder({
  code: "limit_exceeded",
  what: "number of deferred orders in the engine",
  limit: MAX_DEFERRED,
  retryAfterMs: DEFER_MS,
});

/**
 * Consumes the stream of orders, for senders that do not wait for an answer. An order stays in the stream until its record is written. A refused order becomes
 * a dead letter, and its sender gets the reason if the signature proves the sender. An order over its user's limits stays until it fits. Later orders of that
 * user stay behind it if this process has received both.
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
  // A message is redelivered after one pause; a second one covers the delivery.
  const deferred = makeDeferredMessages({ maxMessages: MAX_DEFERRED, forMs: 2 * DEFER_MS });
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
        // The rest of the data may be a plain secret.
        delivery.giveUp("the data of the order are not UTF-8 text", "reason");
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
        // No record is stored, so no later answer can have this number.
        await feedback({ id, createdNs, source: SOURCE, number: 0, result, deleted: true });
      }
      // Many clients can read dead letters, so a dead letter must not hold plain secrets.
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
