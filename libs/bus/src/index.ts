export type {
  Bus,
  ConsumeOptions,
  Delivery,
  Endpoint,
  FailedDelivery,
  Headers,
  Message,
  Reply,
  StreamConfig,
} from "./bus.ts";
export { client } from "./client.ts";
export type { CallOptions, Client } from "./client.ts";
export { serve } from "./serve.ts";
export type { CallContext, Handlers, ServeOptions } from "./serve.ts";
export { fillPage } from "./fill-page.ts";
export type { PageLimits } from "./fill-page.ts";
export { consumeEvents, publishEvent } from "./events.ts";
export type { EventOptions } from "./events.ts";
export { openTrail } from "./trail.ts";
export type { Trail } from "./trail.ts";
export { signalEvent } from "./signal-event.ts";
export { deadLetters } from "./dead-letters.ts";
export type { DeadLetter } from "./dead-letters.ts";
export { connectNats } from "./nats-bus.ts";
export { isCredentialRefused, isForbidden } from "./refusals.ts";
export { connectService } from "./connect-service.ts";
export { readNatsAccess } from "./nats-access.ts";
export type { NatsAccess } from "./nats-access.ts";
export type { NatsBus } from "./nats-bus.ts";
export type { RequestRate } from "./request-rates.ts";
export { isNoResponders } from "./nats-fault.ts";
export { memoryBus, MemoryWorld } from "./memory-bus.ts";
