import type { NatsConnection } from "@nats-io/nats-core";

type ConnectionEvent = "disconnect" | "reconnect" | "close";
type Listener = (event: ConnectionEvent) => void;
type Followed = { up: boolean; readonly listeners: Set<Listener> };

const followed = new WeakMap<NatsConnection, Followed>();

/** Tells when the connection is lost, is back, or is closed for good. Returns the way to stop. One reader of the connection's status serves all listeners. */
export function onConnectionEvent(connection: NatsConnection, listener: Listener): () => void {
  const { listeners } = follow(connection);
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Resolves when the connection stands, is closed for good, or the signal is aborted: a request before that only waits for its time limit. */
export async function connectionUp(connection: NatsConnection, signal: AbortSignal): Promise<void> {
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
 * Sends a request once the connection stands: the client forgets what is sent while it reconnects, which then would only wait for its time limit.
 * Where the connection does not come back within timeoutMs the request is sent all the same, and fails in its own way.
 */
export function whenUp<Reply>(
  connection: NatsConnection,
  timeoutMs: number,
  request: () => Promise<Reply>,
): Promise<Reply> {
  if (follow(connection).up) return request();
  return connectionUp(connection, AbortSignal.timeout(timeoutMs)).then(request);
}

function follow(connection: NatsConnection): Followed {
  const known = followed.get(connection);
  if (known !== undefined) return known;
  const state: Followed = { up: true, listeners: new Set() };
  followed.set(connection, state);
  const tell = (event: ConnectionEvent): void => {
    state.up = event === "reconnect";
    for (const listener of [...state.listeners]) listener(event);
  };
  const read = async (): Promise<void> => {
    for await (const status of connection.status()) {
      if (status.type === "disconnect" || status.type === "reconnect") tell(status.type);
    }
  };
  const close = (): void => tell("close");
  read().then(close, close);
  return state;
}
