import type { ConsumeOptions, Delivery, Message } from "./bus.ts";

/** The ways to end a message on the bus below. */
export type DeliveryEndings = {
  readonly ack: () => Promise<void>;
  readonly working: () => void;
  readonly retry: (delayMs: number) => void;
  readonly giveUp: (reason: string) => void;
};

/** Creates a delivery that ends once: later calls do nothing. A failed acknowledgement does not end it. */
export function makeDelivery(message: Message, sequence: number, attempt: number, endings: DeliveryEndings): Delivery {
  let ended = false;
  const end = (how: () => void): void => {
    if (ended) return;
    ended = true;
    how();
  };
  return {
    ...message,
    sequence,
    attempt,
    ack: async () => {
      if (ended) return;
      ended = true;
      try {
        await endings.ack();
      } catch (error) {
        ended = false;
        throw error;
      }
    },
    working: () => {
      if (!ended) endings.working();
    },
    retry: (delayMs) => {
      end(() => {
        endings.retry(delayMs);
      });
    },
    giveUp: (reason) => {
      end(() => {
        endings.giveUp(reason);
      });
    },
  };
}

/** Runs the handler. If the handler throws, requests redelivery with a growing delay. Never rejects. */
export async function deliverMessage(
  delivery: Delivery,
  handler: (delivery: Delivery) => Promise<void>,
  onRetry: ConsumeOptions["onRetry"],
): Promise<void> {
  try {
    await handler(delivery);
  } catch (error) {
    const { subject, sequence, attempt } = delivery;
    const delayMs = retryDelayMs(attempt);
    delivery.retry(delayMs);
    onRetry?.({ subject, sequence, attempt, delayMs, error });
  }
}

/** Delay before the next delivery: 1 s after the first attempt, doubling to 60 s. */
export function retryDelayMs(attempt: number): number {
  return Math.min(60_000, 1000 * 2 ** Math.min(attempt - 1, 6));
}
