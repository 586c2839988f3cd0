import { createInbox, type NatsConnection } from "@nats-io/nats-core";

const prefixes = new WeakMap<NatsConnection, string>();

/**
 * Sets the prefix of all inboxes of this connection, so that the server can forbid its user to subscribe to the replies of other users. Called once, when the
 * connection is created.
 */
export function rememberInbox(connection: NatsConnection, prefix: string): void {
  prefixes.set(connection, prefix);
}

/** Returns a new subject for answers over this connection, with a random part. */
export function makeInbox(connection: NatsConnection): string {
  return createInbox(prefixes.get(connection));
}
