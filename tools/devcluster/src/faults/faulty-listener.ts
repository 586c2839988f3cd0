import { once } from "node:events";
import type { Server } from "node:https";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A port that can be closed and reopened. */
export type FaultyListener = AsyncDisposable & {
  readonly port: number;
  /** Breaks every connection and refuses new ones for at least this time; a longer outage in progress stays. */
  goAway(ms: number): Promise<void>;
  comeBack(): Promise<void>;
};

/** Another program may meanwhile use the port for an outgoing connection. */
const RETRY_EVERY_MS = 20;
const RETRY_FOR_MS = 10_000;

/** Listens on loopback. Calls `onLost` if the port could not be reopened. */
export async function openFaultyListener(
  server: Server,
  wantedPort: number,
  onLost: (error: unknown) => void,
): Promise<FaultyListener> {
  const sockets = new Set<Socket>();
  let returning: { readonly timer: NodeJS.Timeout; readonly atMs: number } | undefined;
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await listen(server, wantedPort);
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : wantedPort;

  const leave = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  const comeBack = async (): Promise<void> => {
    clearTimeout(returning?.timer);
    returning = undefined;
    const endMs = performance.now() + RETRY_FOR_MS;
    while (!server.listening) {
      try {
        await listen(server, port);
      } catch (error) {
        if (performance.now() > endMs) throw error;
        await sleep(RETRY_EVERY_MS);
      }
    }
  };
  return {
    port,
    goAway: async (ms) => {
      const atMs = Math.max(returning?.atMs ?? 0, performance.now() + ms);
      clearTimeout(returning?.timer);
      const timer = setTimeout(() => void comeBack().catch(onLost), atMs - performance.now());
      returning = { timer, atMs };
      await leave();
    },
    comeBack,
    [Symbol.asyncDispose]: async () => {
      clearTimeout(returning?.timer);
      await leave();
    },
  };
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
}
