import type { Http2SecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { throwFault } from "@muster/faults";
import cookie from "@fastify/cookie";
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { buildOpenApi } from "../api/build-openapi.ts";
import type { HttpConfig } from "../config.ts";
import { buildProblem } from "../domain/build-problem.ts";
import { addApi, type ApiParts } from "./api-routes.ts";
import { closeConnections } from "./close-connections.ts";
import { addConsole, type SendPage } from "./console-files.ts";
import { followCertificate, readCertificate } from "./serve-certificate.ts";
import { CHECK_MS, limitRequests } from "./limit-requests.ts";
import { answerMeter } from "./metrics.ts";
import { answerUnreadableRequest, problemOf, sendProblem, type ProblemContext } from "./http-problems.ts";
import { addSessionRoutes, type SignInParts } from "./session-routes.ts";

export type ServerParts = Omit<ApiParts, "limits" | "leaveRequests"> &
  SignInParts & {
    readonly http: HttpConfig;
    /** Undefined selects the build of apps/console. */
    readonly consoleDirectory: string | undefined;
    readonly version: string;
    /** Returns the reason why this process must receive no further requests; undefined if it may. */
    readonly trouble: () => string | undefined;
  };

export type HttpServer = AsyncDisposable & {
  /** `https://host:port`. */
  readonly url: string;
};

const MAX_HEADER_BYTES = 16_384;
const KEEP_ALIVE_MS = 10_000;

/** Headers of every answer: only answers of the console are documents for a browser, and no shared cache may store an answer. */
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
    clientErrorHandler: answerUnreadableRequest,
  } as const;
  const timeouts = { headersTimeout: limits.headersTimeoutMs, connectionsCheckingInterval: CHECK_MS };
  if (tls === undefined) {
    const server = fastify({ ...common, http: { ...timeouts, maxHeaderSize: MAX_HEADER_BYTES } });
    server.server.maxConnections = limits.maxConnections;
    return server;
  }
  const certificate = await readCertificate(tls);
  const https = {
    ...certificate,
    allowHTTP1: true,
    handshakeTimeout: limits.headersTimeoutMs,
    maxHeaderSize: MAX_HEADER_BYTES,
    maxHeaderListPairs: 100,
  };
  // The types of the HTTP versions differ; requests and replies of both have all members that are used here.
  const server = fastify({
    ...common,
    http2: true,
    http2SessionTimeout: limits.requestTimeoutMs,
    https,
  } as never) as unknown as FastifyInstance;
  // Sets the limits for HTTP/1.1 clients, which the HTTP/2 server accepts only as properties.
  Object.assign(server.server, timeouts, { maxConnections: limits.maxConnections });
  const stop = new AbortController();
  server.addHook("onClose", async () => {
    stop.abort();
    await following;
  });
  const secured = server.server as unknown as Http2SecureServer;
  server.addHook("preClose", closeConnections(secured));
  const following = followCertificate(secured, tls, certificate, { logger: context.logger, signal: stop.signal });
  return server;
}

function pathOf(request: FastifyRequest): string {
  return (request.url.split("?")[0] ?? "").slice(0, 200);
}
