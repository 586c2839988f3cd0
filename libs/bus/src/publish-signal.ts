import type { Context } from "@opentelemetry/api";
import { PubHeaders } from "@nats-io/jetstream";
import type { AnyMessageType, PropertiesOf } from "@muster/proto";
import { injectTrace } from "@muster/tracing";
import type { Bus } from "./bus.ts";
import { encodeMessage, getTypeName } from "./messages.ts";
import { header } from "./wire-headers.ts";

/**
 * Sends one typed event to its stream without awaiting the acknowledgement, at a fraction of the cost of `publishEvent`. Messages of one connection arrive in
 * order. So the acknowledgement of a later `publishEvent` proves that this event has arrived, unless the connection was lost in between.
 */
export function publishSignal<Type extends AnyMessageType>(
  bus: Bus,
  subject: string,
  type: Type,
  message: PropertiesOf<Type>,
  options: { readonly messageId: string; readonly trace: Context },
): void {
  const headers = new Map<string, string>([
    [header.type, getTypeName(type)],
    [PubHeaders.MsgIdHdr, options.messageId],
  ]);
  injectTrace(headers, options.trace);
  bus.signal(subject, encodeMessage(type, message), headers);
}
