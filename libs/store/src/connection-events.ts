import type { NatsConnection } from "@nats-io/nats-core";
import { buildUnavailableError } from "./jetstream-fault.ts";

/** Back-off after a failure or silence of the server. */
export const RETRY = { firstMs: 50, maxMs: 5000 };

type ConnectionEvent = "disconnect" | "reconnect" | "close";
type Listener = (event: ConnectionEvent) => void;
type Followed = { up: boolean; readonly listeners: Set<Listener> };

const followed = new WeakMap<NatsConnection, Followed>();

/**
 * Reports when the connection is lost, restored or closed for good. Returns the function that stops. One reader of the connection's status serves all
 * listeners.
 */
export function onConnectionEvent(connection: NatsConnection, listener: Listener): () => void {
  const { listeners } = follow(connection);
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Resolves when the connection is up, closed for good, or the signal is aborted: an earlier request would only wait for its time limit. */
export async function waitForConnection(connection: NatsConnection, signal: AbortSignal): Promise<void> {
  const state = follow(connection);
  if (state.up || signal.aborted || connection.isClosed()) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stop();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const stop = onConnectionEvent(connection, (event) => {
      if (event !== "disconnect") done();
    });
    signal.addEventListener("abort", done);
  });
}

/**
 * Sends a request once the connection is up, and rejects with unavailable as soon as the connection is lost. Without this check, both would wait for their time
 * limit: the client discards messages while it reconnects, and does not fail requests that lost their answer. Also rejects if the connection is not restored
 * within timeoutMs; then nothing was sent.
 */
export async function requestOnce<Reply>(
  connection: NatsConnection,
  timeoutMs: number,
  request: () => Promise<Reply>,
): Promise<Reply> {
  if (!follow(connection).up) {
    await waitForConnection(connection, AbortSignal.timeout(timeoutMs));
    if (!follow(connection).up) throw buildUnavailableError("the connection is down");
  }
  return new Promise<Reply>((resolve, reject) => {
    const stop = onConnectionEvent(connection, (event) => {
      if (event === "reconnect") return;
      stop();
      reject(buildUnavailableError("the connection was lost"));
    });
    request().then(resolve, reject).finally(stop);
  });
}

function follow(connection: NatsConnection): Followed {
  const known = followed.get(connection);
  if (known !== undefined) return known;
  const state: Followed = { up: true, listeners: new Set() };
  followed.set(connection, state);
  const notify = (event: ConnectionEvent): void => {
    state.up = event === "reconnect";
    for (const listener of [...state.listeners]) listener(event);
  };
  const read = async (): Promise<void> => {
    for await (const status of connection.status()) {
      if (status.type === "disconnect" || status.type === "reconnect") notify(status.type);
      else if (status.type === "reconnecting") state.up = false;
    }
  };
  const close = (): void => notify("close");
  read().then(close, close);
  return state;
}
