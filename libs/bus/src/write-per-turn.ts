import type { NatsConnection } from "@nats-io/nats-core";

/** The part of the client library that writes the messages sent since the last call. */
type Writer = { flushPending: () => void };

/**
 * Writes to the socket once per turn of the event loop. The client library writes after each microtask. A service that answers a batch would make a system call
 * per message, which costs more than the message.
 */
export function writePerTurn(connection: NatsConnection): void {
  const writer: unknown = "protocol" in connection ? connection.protocol : undefined;
  if (!isWriter(writer)) return;
  const write = writer.flushPending.bind(writer);
  let isDue = false;
  writer.flushPending = () => {
    if (isDue) return;
    isDue = true;
    setImmediate(() => {
      isDue = false;
      write();
    });
  };
}

function isWriter(value: unknown): value is Writer {
  return (
    typeof value === "object" && value !== null && "flushPending" in value && typeof value.flushPending === "function"
  );
}
