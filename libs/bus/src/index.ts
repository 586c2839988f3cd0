export type {
  Bus,
  ConsumeOptions,
  Delivery,
  Endpoint,
  FailedDelivery,
  Headers,
  ListenOptions,
  Message,
  Published,
  PublishOptions,
  Reply,
  RequestOptions,
  ServiceIdentity,
  StoredMessage,
  StreamConfig,
  StreamState,
} from "./bus.ts";
export { client } from "./client.ts";
export type { CallOptions, Client } from "./client.ts";
export { serve } from "./serve.ts";
export type { CallContext, Handlers, ServeOptions } from "./serve.ts";
export { fillPage } from "./fill-page.ts";
export type { Page, PageLimits } from "./fill-page.ts";
export { consumeEvents, publishEvent } from "./events.ts";
export type { EventContext, EventOptions } from "./events.ts";
export { openTrail } from "./trail.ts";
export type { Trail, TrailOptions, TrailPage, TrailQuery } from "./trail.ts";
export { signalEvent } from "./signal-event.ts";
export { deadLetters } from "./dead-letters.ts";
export type { DeadLetter, DeadLetters, DeadLetterSummary } from "./dead-letters.ts";
export { connectNats } from "./nats-bus.ts";
export { isCredentialRefused, isForbidden } from "./refusals.ts";
export { connectService } from "./connect-service.ts";
export { readNatsAccess } from "./nats-access.ts";
export type { NatsAccess, NatsTls } from "./nats-access.ts";
export type { NatsBus, NatsOptions } from "./nats-bus.ts";
export type { BusStatus } from "./nats-link.ts";
export type { DiscoveredService, DroppedSignals } from "./nats-services.ts";
export type { RequestRate } from "./request-rates.ts";
export { isNoResponders, natsError, natsFault } from "./nats-fault.ts";
export { faultFromProto, faultToProto } from "./messages.ts";
export { memoryBus, MemoryWorld } from "./memory-bus.ts";
export type { MemoryOptions } from "./memory-bus.ts";
export type { Timers } from "./memory-stream.ts";
