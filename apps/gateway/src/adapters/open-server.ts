import type { AddressInfo } from "node:net";
import type { Server } from "node:tls";
import { within } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import cookie from "@fastify/cookie";
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { buildOpenApi } from "../api/build-openapi.ts";
import type { HttpConfig, HttpLimits } from "../config.ts";
import { buildProblem, buildRefusal, type Problem } from "../domain/build-problem.ts";
import { isHost } from "../domain/decide-origin.ts";
import { addApi, type ApiParts } from "./api-routes.ts";
import { addConsole, type SendPage } from "./console-files.ts";
import { followCertificate, readCertificate } from "./serve-certificate.ts";
import { answerMeter } from "./metrics.ts";
import { answerUnread, problemOf, sendProblem, type ProblemContext } from "./http-problems.ts";
import { addSessionRoutes, SESSION, SIGN_IN_TIMEOUT_MS, type SignInParts } from "./session-routes.ts";

export type ServerParts = Omit<ApiParts, "limits" | "leaveRequests"> &
  SignInParts & {
    readonly http: HttpConfig;
    /** Undefined selects the build of apps/console. */
    readonly consoleDirectory: string | undefined;
    readonly version: string;
    /** The reason why this process must get no further requests; undefined: it may. */
    readonly trouble: () => string | undefined;
  };

export type HttpServer = AsyncDisposable & {
  /** `https://host:port`. */
  readonly url: string;
};

const MAX_HEADER_BYTES = 16_384;
const MAX_URL_CHARACTERS = 8192;
const KEEP_ALIVE_MS = 10_000;
/** The interval at which requests that arrive too slowly are detected. */
const CHECK_MS = 1000;
/** The share of one address in the concurrent requests whose user and body the gateway has not received yet. */
const ADDRESS_SHARE = 0.25;
const MIN_ADDRESS_SHARE = 8;
/** The retry hint at the limit of concurrent requests, and while the gateway stops. */
const BUSY_RETRY_MS = 1000;
/** The time for running requests to end when the gateway stops. */
const FINISH_MS = 15_000;

const STOPPING = buildProblem({ code: "unavailable", dependency: "this gateway", retryAfterMs: BUSY_RETRY_MS });

/** No limit refuses these paths, because they report whether the process is healthy. */
const PROBES = new Set<string | undefined>(["/healthz", "/readyz"]);

/** Only answers of the console are documents for a browser, and only the reader's own browser may store any answer. */
const SECURITY_HEADERS = {
  "cache-control": "private, no-cache",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};
const HTTPS_ONLY = { "strict-transport-security": "max-age=31536000" };

/**
 * Serves the API until it is disposed of. Disposal first waits for running requests, except streams. Rejects with FaultError unavailable if the address is in
 * use.
 */
export async function openServer(parts: ServerParts): Promise<HttpServer> {
  const { http, trouble, nats } = parts;
  const context = { limits: http.limits, logger: parts.logger };
  const server = await makeServer(http, context);
  server.removeContentTypeParser("text/plain");
  server.setErrorHandler((error: Error, request, reply) => {
    const limits = { maxBodyBytes: request.routeOptions.bodyLimit };
    sendProblem(reply, problemOf(error, { ...context, limits }));
  });
  let sendPage: SendPage = () => false;
  server.setNotFoundHandler((request, reply) => {
    if (!sendPage(request, reply))
      sendProblem(reply, buildProblem({ code: "not_found", kind: "path", id: pathOf(request) }));
  });
  const requests = limitRequests(server, http.limits, securityHeaders(http.tls));
  const measure = answerMeter();
  const long = new WeakSet<FastifyRequest>();
  server.addHook("onResponse", (request, reply, done) => {
    const { method, routeOptions } = request;
    if (!long.has(request))
      measure({ method, route: routeOptions.url, status: reply.statusCode, ms: reply.elapsedTime });
    done();
  });
  const leaveRequests = (request: FastifyRequest): void => {
    long.add(request);
    requests.leave(request);
  };
  server.get("/healthz", () => ({ status: "ok" }));
  server.get("/readyz", (_request, reply) => {
    const because = trouble();
    return reply.code(because === undefined ? 200 : 503).send({ status: because ?? "ok", warning: nats.trouble });
  });
  const openApi = Buffer.from(JSON.stringify(buildOpenApi(parts.routes, parts.version)));
  server.get("/openapi.json", (_request, reply) => reply.type("application/json; charset=utf-8").send(openApi));
  await server.register(cookie);
  addSessionRoutes(server, parts);
  sendPage = await addConsole(server, parts.consoleDirectory);
  await server.register(async (api) => {
    addApi(api, { ...parts, ...context, leaveRequests });
    await Promise.resolve();
  });
  try {
    await server.listen({ host: http.host, port: http.port });
  } catch (cause) {
    throwFault({ code: "unavailable", dependency: `address ${http.host}:${http.port}`, retryAfterMs: 0 }, { cause });
  }
  const { port } = server.server.address() as AddressInfo;
  const host = http.host.includes(":") ? `[${http.host}]` : http.host;
  return {
    url: `${http.tls === undefined ? "http" : "https"}://${host}:${port}`,
    [Symbol.asyncDispose]: async () => {
      await requests.finish();
      await server.close();
    },
  };
}

function securityHeaders(tls: HttpConfig["tls"]): Readonly<Record<string, string>> {
  return tls === undefined ? SECURITY_HEADERS : { ...SECURITY_HEADERS, ...HTTPS_ONLY };
}

async function makeServer(
  { tls, trustedProxies, limits }: HttpConfig,
  context: ProblemContext,
): Promise<FastifyInstance> {
  const common = {
    bodyLimit: limits.maxBodyBytes,
    ...(trustedProxies.length > 0 && { trustProxy: [...trustedProxies] }),
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: true,
    // The limit of headers already refuses longer parameters.
    routerOptions: { maxParamLength: MAX_HEADER_BYTES },
    frameworkErrors: (error: Error, _request: FastifyRequest, reply: FastifyReply) => {
      sendProblem(reply.headers(securityHeaders(tls)), problemOf(error, context));
    },
    clientErrorHandler: answerUnread,
  } as const;
  const timeouts = { headersTimeout: limits.headersTimeoutMs, connectionsCheckingInterval: CHECK_MS };
  if (tls === undefined) {
    const server = fastify({ ...common, http: { ...timeouts, maxHeaderSize: MAX_HEADER_BYTES } });
    server.server.maxConnections = limits.maxConnections;
    return server;
  }
  const certificate = await readCertificate(tls);
  const https = { ...certificate, allowHTTP1: true, maxHeaderSize: MAX_HEADER_BYTES, maxHeaderListPairs: 100 };
  // Types differ between the versions of HTTP; requests and replies of both have all members that are used here.
  const server = fastify({
    ...common,
    http2: true,
    http2SessionTimeout: limits.requestTimeoutMs,
    https,
  } as never) as unknown as FastifyInstance;
  // Sets the same limits for clients of HTTP/1.1, which the server of HTTP/2 accepts only as properties.
  Object.assign(server.server, timeouts, { maxConnections: limits.maxConnections });
  const stop = new AbortController();
  server.addHook("onClose", async () => {
    stop.abort();
    await following;
  });
  const secured = server.server as unknown as Server;
  const following = followCertificate(secured, tls, certificate, { logger: context.logger, signal: stop.signal });
  return server;
}

type Requests = {
  /** Removes a request from the count of concurrent requests. */
  readonly leave: (request: FastifyRequest) => void;
  /** Refuses new requests from now on. Resolves once none runs, at the latest after FINISH_MS. */
  readonly finish: () => Promise<void>;
};

/** Refuses requests over the limits before it reads any part of them, and ends those whose bodies arrive too slowly. */
function limitRequests(
  server: FastifyInstance,
  limits: HttpLimits,
  headers: Readonly<Record<string, string>>,
): Requests {
  const running = new Set<FastifyRequest>();
  const finished = Promise.withResolvers<undefined>();
  let isStopping = false;
  const leave = (request: FastifyRequest): void => {
    running.delete(request);
    if (isStopping && running.size === 0) finished.resolve(undefined);
  };
  const maxArriving = Math.max(MIN_ADDRESS_SHARE, Math.floor(limits.maxRequests * ADDRESS_SHARE));
  const arriving = new Map<string, Map<FastifyRequest, NodeJS.Timeout | undefined>>();
  const arrived = (request: FastifyRequest): void => {
    const ofAddress = arriving.get(request.ip);
    clearTimeout(ofAddress?.get(request));
    if (ofAddress?.delete(request) === true && ofAddress.size === 0) arriving.delete(request.ip);
  };
  const begin = (request: FastifyRequest): void => {
    const maxMs = request.routeOptions.url === SESSION ? SIGN_IN_TIMEOUT_MS : Infinity;
    const timeoutMs = Math.min(maxMs, limits.requestTimeoutMs);
    // A request without a body is already complete.
    const late = hasBody(request) ? setTimeout(() => request.raw.destroy(), timeoutMs + CHECK_MS).unref() : undefined;
    const ofAddress = arriving.get(request.ip) ?? new Map<FastifyRequest, NodeJS.Timeout | undefined>();
    arriving.set(request.ip, ofAddress.set(request, late));
    running.add(request);
  };
  const refusalOf = (request: FastifyRequest): Problem | undefined => {
    if (request.url.length > MAX_URL_CHARACTERS)
      return buildRefusal("PATH_TOO_LONG", `the path and query are over ${MAX_URL_CHARACTERS} characters`);
    if (isStopping) return STOPPING;
    if (!isHost(request.host)) return buildRefusal("MALFORMED_REQUEST", "the header Host is no name with a port");
    if (running.size > limits.maxRequests) return tooMany("number of concurrent requests", limits.maxRequests);
    if ((arriving.get(request.ip)?.size ?? 0) > maxArriving)
      return tooMany("number of concurrent requests of your address", maxArriving);
    return undefined;
  };
  server.addHook("onRequest", (request, reply, done) => {
    reply.headers(headers);
    if (PROBES.has(request.routeOptions.url)) {
      done();
      return;
    }
    begin(request);
    reply.raw.once("close", () => {
      arrived(request);
      leave(request);
    });
    // HTTP/2 has no such header; its connections end with the server.
    if (isStopping && request.raw.httpVersionMajor === 1) reply.header("connection", "close");
    const refusal = refusalOf(request);
    if (refusal === undefined) done();
    else sendProblem(reply, refusal);
  });
  server.addHook("preHandler", (request, _reply, done) => {
    arrived(request);
    done();
  });
  return {
    leave,
    finish: async () => {
      isStopping = true;
      if (running.size > 0) await within(FINISH_MS, finished.promise);
    },
  };
}

/** Whether the request has a body. HTTP/2 needs neither header for one, so the method decides there. */
function hasBody({ method, headers }: FastifyRequest): boolean {
  const isRead = method === "GET" || method === "HEAD";
  return !isRead || "content-length" in headers || "transfer-encoding" in headers;
}

/** The status is 503, because all users share these limits, and no single user exceeds them. */
function tooMany(what: string, limit: number): Problem {
  return { ...buildProblem({ code: "limit_exceeded", what, limit, retryAfterMs: BUSY_RETRY_MS }), status: 503 };
}

function pathOf(request: FastifyRequest): string {
  return (request.url.split("?")[0] ?? "").slice(0, 200);
}
