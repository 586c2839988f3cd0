import { findFault } from "@muster/faults";
import { subjects } from "@muster/proto";
import type { Bus, ConsumeOptions, Delivery, Headers } from "./bus.ts";
import { header, getHeaderText } from "./wire-headers.ts";

const REASON_LENGTH = 512;
const NOTHING = new Uint8Array();

/**
 * Publishes a message on `muster.dead.<area>` with all that an operator needs to read and replay it, then ends it. A failure leads to a redelivery, and the
 * message id prevents a duplicate. With `reason`, only the size of the content is kept.
 */
export async function publishDeadLetter(
  bus: Bus,
  options: Pick<ConsumeOptions, "stream" | "durable"> & { readonly area: string },
  delivery: Delivery,
  reason: string,
  keep: "message" | "reason" = "message",
): Promise<void> {
  const { stream, durable, area } = options;
  const { subject, payload, sequence, attempt } = delivery;
  const deadHeaders: Headers = new Map([
    [header.deadReason, getHeaderText(reason).slice(0, REASON_LENGTH)],
    [header.deadSubject, subject],
    [header.deadStream, stream],
    [header.deadConsumer, durable],
    [header.deadSequence, String(sequence)],
    [header.deadDeliveries, String(attempt)],
  ]);
  const messageId = `${stream}.${durable}.${sequence}`;
  const send = (bytes: Uint8Array, headers: Headers): Promise<unknown> =>
    bus.publish(subjects.dead(area), bytes, { messageId, headers });
  const sendReason = (): Promise<unknown> =>
    send(NOTHING, new Map([...deadHeaders, [header.deadLost, String(payload.length)]]));
  try {
    // Drops the server's own headers: those of the first publication must not affect this one.
    const own = [...delivery.headers].filter(([name]) => !name.startsWith("Nats-"));
    await (keep === "reason" ? sendReason() : send(payload, new Map([...own, ...deadHeaders])));
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code !== "limit_exceeded" || fault.retryAfterMs > 0) throw error;
    // At the maximum size the reason does not fit beside the payload: only the reason is kept.
    await sendReason();
  }
  delivery.giveUp(reason);
}
