import { createInbox, type NatsConnection } from "@nats-io/nats-core";

const prefixes = new WeakMap<NatsConnection, string>();

/**
 * Answers over this connection arrive below `prefix` from now on, whoever asks: the server then lets its user listen to no answer that is meant for another. Said once,
 * where the connection is made.
 */
export function keepInbox(connection: NatsConnection, prefix: string): void {
  prefixes.set(connection, prefix);
}

/** A subject for answers over this connection that nobody else knows. */
export function newInbox(connection: NatsConnection): string {
  return createInbox(prefixes.get(connection));
}
