import type { AnyMessageType, MessageOf, PropertiesOf } from "@muster/proto";
import type { Bus, ConsumeOptions, Delivery, Published } from "./bus.ts";

export type EventContext = Omit<Delivery, "payload" | "headers">;

/** Appends one typed event or command to its stream, with trace context and the full type name in headers. */
export function publishEvent<Type extends AnyMessageType>(
  bus: Bus,
  subject: string,
  type: Type,
  message: PropertiesOf<Type>,
  options: { readonly messageId: string },
): Promise<Published> {
  void bus;
  void subject;
  void type;
  void message;
  void options;
  throw new Error("pending");
}

/**
 * Hands each event to the handler as a typed message, under the trace of its sender. Acknowledged after the handler returns, unless the handler has ended it
 * itself. A payload that does not decode goes to `muster.dead.<area>` with the reason and is never delivered again. Handlers may see a message twice.
 */
export function consumeEvents<Type extends AnyMessageType>(
  bus: Bus,
  options: ConsumeOptions & { readonly area: string },
  type: Type,
  handler: (message: MessageOf<Type>, context: EventContext) => Promise<void>,
): Promise<AsyncDisposable> {
  void bus;
  void options;
  void type;
  void handler;
  throw new Error("pending");
}
