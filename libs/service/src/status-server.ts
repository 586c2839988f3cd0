import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { throwFault } from "@muster/faults";

/**
 * The missing condition of readiness, by the name of the check; undefined: none. A note is only shown. A warning is a failed check that leaves the service
 * ready: /readyz succeeds and shows it, and the metric of the check is 0.
 */
export type ReadyCheck = () => string | { readonly note: string } | { readonly warning: string } | undefined;

/** Whether the check passes. A warning does not. */
export function isPassed(found: ReturnType<ReadyCheck>): boolean {
  return found === undefined || (typeof found === "object" && "note" in found);
}

type StatusServer = AsyncDisposable & { readonly address: string };

/** Serves /livez, /readyz (with ?verbose, every check by name) and /metrics until disposed. */
export async function startStatusServer(options: {
  /** host:port; port 0 takes any free one. */
  readonly address: string;
  readonly checks: ReadonlyMap<string, ReadyCheck>;
  readonly answerScrape: (request: IncomingMessage, response: ServerResponse) => void;
}): Promise<StatusServer> {
  const server = createServer((request, response) => {
    answer(options, request, response);
  });
  const { hostname, port } = new URL(`http://${options.address}`);
  server.listen(Number(port === "" ? 80 : port), hostname.replaceAll(/[[\]]/g, ""));
  try {
    await once(server, "listening");
  } catch (cause) {
    throwFault(
      { code: "unavailable", dependency: `address ${options.address}`, retryAfterMs: 0 },
      { cause, doing: "listening" },
    );
  }
  const bound = server.address() as AddressInfo;
  return { address: `${hostname}:${bound.port}`, [Symbol.asyncDispose]: () => close(server) };
}

function answer(
  options: Parameters<typeof startStatusServer>[0],
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const url = new URL(request.url ?? "/", "http://status");
  if (request.method !== "GET" && request.method !== "HEAD") {
    response.writeHead(405, { allow: "GET, HEAD" }).end();
  } else if (url.pathname === "/metrics") {
    options.answerScrape(request, response);
  } else if (url.pathname === "/livez") {
    response.writeHead(200, { "content-type": "text/plain" }).end("ok\n");
  } else if (url.pathname === "/readyz") {
    const results = [...options.checks].map(([name, check]) => ({ name, found: check() }));
    const ready = results.every(({ found }) => typeof found !== "string");
    const lines = results.map(({ name, found }) => formatLine(name, found));
    const verbose = !results.every(({ found }) => isPassed(found)) || url.searchParams.has("verbose");
    response.writeHead(ready ? 200 : 503, { "content-type": "text/plain" });
    response.end([...(verbose ? lines : []), ready ? "ok" : "not ready", ""].join("\n"));
  } else {
    response.writeHead(404, { "content-type": "text/plain" }).end("paths: /livez, /readyz, /metrics\n");
  }
}

function formatLine(name: string, found: ReturnType<ReadyCheck>): string {
  if (found === undefined) return `[+]${name} ok`;
  if (typeof found === "string") return `[-]${name} ${found}`;
  return "note" in found ? `[+]${name} ok, ${found.note}` : `[!]${name} ${found.warning}`;
}

async function close(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  await once(server, "close");
}
