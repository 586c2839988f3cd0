import { faultOf } from "@muster/faults";
import { subjects } from "@muster/proto";
import type { Bus, ConsumeOptions, Delivery, Headers } from "./bus.ts";
import { header, headerText } from "./wire-headers.ts";

const REASON_LENGTH = 512;
const NOTHING = new Uint8Array();

/**
 * Puts a message on `muster.dead.<area>` with all that is needed to look at it and to send it again, then ends it. When that fails the message comes again, and the
 * same message id keeps it from lying there twice. Of one whose reason alone is kept the content is lost, and its size is told.
 */
export async function bury(
  bus: Bus,
  options: Pick<ConsumeOptions, "stream" | "durable"> & { readonly area: string },
  delivery: Delivery,
  reason: string,
  keep: "message" | "reason" = "message",
): Promise<void> {
  const { stream, durable, area } = options;
  const { subject, payload, sequence, attempt } = delivery;
  const grave: Headers = new Map([
    [header.deadReason, headerText(reason).slice(0, REASON_LENGTH)],
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
    send(NOTHING, new Map([...grave, [header.deadLost, String(payload.length)]]));
  try {
    // The server acts on its own headers: those of the first publication must not steer this one.
    const own = [...delivery.headers].filter(([name]) => !name.startsWith("Nats-"));
    await (keep === "reason" ? sendReason() : send(payload, new Map([...own, ...grave])));
  } catch (error) {
    const fault = faultOf(error);
    if (fault?.code !== "limit_exceeded" || fault.retryAfterMs > 0) throw error;
    // As large as a message may be, so that the reason does not fit beside it: what happened is kept, the content is not.
    await sendReason();
  }
  delivery.giveUp(reason);
}
