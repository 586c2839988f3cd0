import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { throwFault } from "@muster/faults";

const HOST = "127.0.0.1";
const DEFAULT_PORT = 8480;

/**
 * Returns the address of the HTTP API: the requested port, otherwise the default port, or a free one where that is in use. Throws FaultError invalid_request
 * where the requested port is no port, or in use.
 */
export async function chooseApiAddress(requestedPort: string | undefined): Promise<string> {
  const wanted = requestedPort === undefined ? DEFAULT_PORT : parsePort(requestedPort);
  const port = (await listenOnce(wanted)) ?? (requestedPort === undefined ? await listenOnce(0) : undefined);
  if (port !== undefined) return `${HOST}:${port}`;
  return refuse(`port ${wanted} of ${HOST} is in use; without this option a free port is chosen`);
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : refuse(`"${text}" is not a port from 1 to 65535`);
}

function refuse(reason: string): never {
  return throwFault({ code: "invalid_request", field: "--api-port", reason });
}

/** Returns the port if this process can listen on it. A restarted gateway needs the same port, so port 0 becomes a number here. */
async function listenOnce(port: number): Promise<number | undefined> {
  const server = createServer();
  try {
    await once(server.listen({ host: HOST, port }), "listening");
    return (server.address() as AddressInfo).port;
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "EADDRINUSE" || error.code === "EACCES"))
      return undefined;
    throw error;
  } finally {
    if (server.listening) {
      server.close();
      await once(server, "close");
    }
  }
}
