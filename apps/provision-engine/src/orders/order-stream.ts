import { consumeEvents, type Bus } from "@muster/bus";
import { describeFault, FaultError, isRetryable } from "@muster/faults";
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
/** Between two attempts of what its user may not have yet. */
const LATER_MS = 10_000;
/** Orders that wait for that, of those that this process was given: more of them are refused. */
const LATER_MOST = 1000;

/**
 * Takes orders from their stream, for senders that do not wait for an answer: each stays there until it is written down. What is refused goes to the dead letters, and
 * its sender is told that there is no such lease where its signature says that he sent it. What its user may not have yet stays until he may.
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
  const later = laterOnes();
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
      const wait = isRetryable(ordered.fault) ? later(delivery.sequence, Date.now()) : "refused";
      if (wait === "begins") onRetry(new FaultError(ordered.fault));
      if (wait !== "refused") {
        delivery.retry(LATER_MS);
        return;
      }
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

/** Whether a message may wait. One that another process is given, or that was taken, counts no more soon after. */
function laterOnes(): (sequence: number, nowMs: number) => "begins" | "goes on" | "refused" {
  const untilMs = new Map<number, number>();
  return (sequence, nowMs) => {
    for (const [each, ms] of untilMs) if (ms < nowMs) untilMs.delete(each);
    const isKnown = untilMs.has(sequence);
    if (!isKnown && untilMs.size >= LATER_MOST) return "refused";
    untilMs.set(sequence, nowMs + 2 * LATER_MS);
    return isKnown ? "goes on" : "begins";
  };
}

function readOrder(message: Parameters<typeof toOrder>[0]): Order | undefined {
  try {
    return toOrder(message);
  } catch {
    return undefined;
  }
}
