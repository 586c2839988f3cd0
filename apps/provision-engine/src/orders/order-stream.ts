import { consumeEvents, type Bus } from "@muster/bus";
import { describeFault } from "@muster/faults";
import { findUnsealed, type Order } from "@muster/leases";
import { muster, streams, subjects } from "@muster/proto";
import { toOrder } from "@muster/leases/wire";
import { SOURCES } from "../domain/order-sources.ts";
import { takeOrder, type RequestDeps } from "./requests.ts";
import type { TellDeps } from "../lead/tell-lease.ts";

export type OrderStreamDeps = {
  readonly bus: Bus;
  readonly requests: RequestDeps;
  readonly feedback: TellDeps["feedback"];
  readonly onRetry: (error: unknown) => void;
  readonly signal: AbortSignal;
};

const SOURCE = SOURCES.stream;
const AREA = "lease";
const IN_FLIGHT = 64;
const ACK_WAIT_MS = 30_000;

/**
 * Takes orders from their stream, for senders that do not wait for an answer: each stays there until it is written down. What is refused goes to the dead letters, and
 * its sender is told that there is no such lease where its signature says that he sent it.
 */
export async function consumeOrders({
  bus,
  requests,
  feedback,
  onRetry,
  signal,
}: OrderStreamDeps): Promise<AsyncDisposable> {
  const { engine } = requests.policy;
  await bus.ensureStream(streams.leaseOrders);
  return consumeEvents(
    bus,
    {
      stream: streams.leaseOrders.name,
      durable: `lease-orders-${engine}`,
      subject: subjects.ordersOfEngine(engine),
      maxInFlight: IN_FLIGHT,
      ackWaitMs: ACK_WAIT_MS,
      area: AREA,
      signal,
      onRetry: ({ error }) => onRetry(error),
    },
    muster.provision.v1.Order,
    async (message, delivery) => {
      const order = readOrder(message);
      if (order === undefined) {
        delivery.giveUp("the data of the order are no text");
        return;
      }
      const ordered = await takeOrder(requests, { order, requestId: "", source: SOURCE, dryRun: false });
      if (!("fault" in ordered)) return;
      // Nothing was stored of it, so that no later answer can have the number of this one.
      if (ordered.answer === "deleted")
        await feedback({
          id: order.id,
          createdNs: order.createdNs,
          source: SOURCE,
          number: 0,
          result: undefined,
          deleted: true,
        });
      // Whatever it is refused for: dead letters are read by many.
      const keep = findUnsealed("order", order) === undefined ? "message" : "reason";
      delivery.giveUp(describeFault(ordered.fault), keep);
    },
  );
}

function readOrder(message: Parameters<typeof toOrder>[0]): Order | undefined {
  try {
    return toOrder(message);
  } catch {
    return undefined;
  }
}
