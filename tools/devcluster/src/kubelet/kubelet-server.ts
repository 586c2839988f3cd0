import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { isAuthorized } from "../apiserver/authenticate.ts";
import type { LogRequest } from "./container-log.ts";
import type { LogReader } from "./pod-runtime.ts";
import { refuseUpgrade, serveExec, type StartExec } from "./serve-exec.ts";

/** Credentials of clients: the token, or a client certificate of the authority. Without both, every request is refused. */
export type KubeletAccess = { readonly bearerToken?: string; readonly clientCa?: string };

/** A log to read, or the status and text of the refusal. */
export type FoundLog =
  | { readonly found: true; readonly read: LogReader }
  | { readonly found: false; readonly status: 400 | 404; readonly message: string };

/** As `FoundLog`, for a command. */
export type FoundExec =
  | { readonly found: true; readonly start: StartExec }
  | { readonly found: false; readonly status: 400 | 404; readonly message: string };

type WhichContainer = { readonly namespace: string; readonly pod: string; readonly container: string };

export type FindExec = (which: WhichContainer) => FoundExec;

export type KubeletServer = AsyncDisposable & { readonly port: number };

export type FindLog = (which: WhichContainer & { readonly previous: boolean }) => FoundLog;

const EXEC_PATH = /^\/exec\/([^/]+)\/([^/]+)\/([^/]+)$/;
const LOGS_PATH = /^\/containerLogs\/([^/]+)\/([^/]+)\/([^/]+)$/;

/** Serves the requests of an API server to a kubelet, over HTTPS on a free port of 127.0.0.1: container logs, commands in containers, and health. */
export async function startKubeletServer(options: {
  readonly certificate: { readonly cert: string; readonly key: string };
  readonly access: KubeletAccess;
  readonly now: () => number;
  readonly findLog: FindLog;
  readonly findExec: FindExec;
}): Promise<KubeletServer> {
  const { certificate, access } = options;
  const server = createServer(
    {
      ...certificate,
      requestCert: access.clientCa !== undefined,
      rejectUnauthorized: false,
      ...(access.clientCa === undefined ? {} : { ca: access.clientCa }),
    },
    (request, response) => {
      answer(request, response, options).catch((error: unknown) => {
        response.destroy(error instanceof Error ? error : undefined);
      });
    },
  );
  const sockets = new Set<Duplex>();
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    upgrade(request, socket, head, options);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: getPort(server),
    [Symbol.asyncDispose]: () => {
      for (const socket of sockets) socket.destroy();
      return close(server);
    },
  };
}

function getPort(server: Server): number {
  return (server.address() as AddressInfo).port;
}

async function close(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}

function upgrade(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  options: { readonly access: KubeletAccess; readonly findExec: FindExec },
): void {
  socket.on("error", () => socket.destroy());
  const { pathname } = new URL(request.url ?? "/", "https://kubelet");
  const match = EXEC_PATH.exec(pathname);
  const [namespace = "", pod = "", container = ""] = (match ?? []).slice(1).map(decodeURIComponent);
  if (!isAllowed(request, options.access)) {
    refuseUpgrade(socket, 401, "Unauthorized");
    return;
  }
  if (match === null) {
    refuseUpgrade(socket, 404, `${pathname} is not served by this kubelet`);
    return;
  }
  const found = options.findExec({ namespace, pod, container });
  if (!found.found) {
    refuseUpgrade(socket, found.status, found.message);
    return;
  }
  serveExec(request, socket, head, found.start);
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: { readonly access: KubeletAccess; readonly now: () => number; readonly findLog: FindLog },
): Promise<void> {
  if (!isAllowed(request, options.access)) {
    refuse(response, 401, "Unauthorized");
    return;
  }
  const url = new URL(request.url ?? "/", "https://kubelet");
  if (url.pathname === "/healthz") {
    refuse(response, 200, "ok");
    return;
  }
  const match = LOGS_PATH.exec(url.pathname);
  if (match === null || request.method !== "GET") {
    refuse(response, 404, `${request.method ?? ""} ${url.pathname} is not served by this kubelet`);
    return;
  }
  const asked = readRequest(url.searchParams, options.now());
  if (typeof asked === "string") {
    refuse(response, 400, asked);
    return;
  }
  const [namespace = "", pod = "", container = ""] = match.slice(1).map(decodeURIComponent);
  const found = options.findLog({ namespace, pod, container, previous: url.searchParams.get("previous") === "true" });
  if (!found.found) {
    refuse(response, found.status, found.message);
    return;
  }
  await sendLog(response, found.read, asked);
}

async function sendLog(response: ServerResponse, read: LogReader, asked: LogRequest): Promise<void> {
  const gone = new AbortController();
  response.on("close", () => {
    gone.abort();
  });
  response.writeHead(200, { "content-type": "text/plain" });
  if (asked.follow) response.flushHeaders();
  for await (const bytes of read(asked, gone.signal)) {
    if (bytes.length > 0 && !response.write(bytes) && !gone.signal.aborted) {
      await once(response, "drain", { signal: gone.signal }).catch(() => undefined);
    }
  }
  response.end();
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" });
  response.end(message);
}

function isAllowed(request: IncomingMessage, access: KubeletAccess): boolean {
  const { socket } = request;
  if (access.clientCa !== undefined && socket instanceof TLSSocket && socket.authorized) return true;
  return isAuthorized(request.headers.authorization, access.bearerToken ?? "");
}

/** Reads the request from the query, or returns the problem with it. */
function readRequest(query: URLSearchParams, nowMs: number): LogRequest | string {
  const tailLines = wholeNumber(query, "tailLines");
  const limitBytes = wholeNumber(query, "limitBytes");
  const sinceSeconds = wholeNumber(query, "sinceSeconds");
  for (const value of [tailLines, limitBytes, sinceSeconds]) if (typeof value === "string") return value;
  const sinceTime = query.get("sinceTime");
  const sinceMs = sinceTime === null ? undefined : Date.parse(sinceTime);
  if (sinceMs !== undefined && Number.isNaN(sinceMs)) return `sinceTime: "${sinceTime ?? ""}" is not a time`;
  if (sinceMs !== undefined && sinceSeconds !== undefined)
    return "at most one of sinceTime or sinceSeconds may be specified";
  const since = typeof sinceSeconds === "number" ? nowMs - sinceSeconds * 1000 : sinceMs;
  return {
    follow: query.get("follow") === "true",
    timestamps: query.get("timestamps") === "true",
    ...(typeof tailLines === "number" ? { tailLines } : {}),
    ...(typeof limitBytes === "number" ? { limitBytes } : {}),
    ...(since === undefined ? {} : { sinceMs: since }),
  };
}

function wholeNumber(query: URLSearchParams, name: string): number | string | undefined {
  const text = query.get(name);
  if (text === null || text === "") return undefined;
  return /^\d+$/.test(text) ? Number(text) : `${name}: "${text}" is not a whole number`;
}
