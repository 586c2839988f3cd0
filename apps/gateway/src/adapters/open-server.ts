import { createHash, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { throwFault } from "@muster/faults";
import type { Logger } from "@muster/service";
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { answerRequest, type Call } from "../api/answer-request.ts";
import type { Asked } from "../api/read-request.ts";
import type { Route } from "../api/route.ts";
import type { Authenticate, User } from "../api/user.ts";
import type { HttpConfig, HttpLimits } from "../config.ts";
import { buildProblem, buildRefusal, retryAfterSeconds, type Problem } from "../domain/build-problem.ts";
import { answerUnread, problemOf } from "./http-problems.ts";

export type ServerParts = {
  readonly http: HttpConfig;
  readonly routes: readonly Route[];
  readonly call: Call;
  readonly authenticate: Authenticate;
  /** What keeps this process from answering; undefined: nothing. */
  readonly trouble: () => string | undefined;
  readonly logger: Pick<Logger, "error">;
};

export type HttpServer = AsyncDisposable & {
  /** `https://host:port`. */
  readonly url: string;
};

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
const MAX_HEADER_BYTES = 16_384;
const MAX_URL_CHARACTERS = 8192;
const KEEP_ALIVE_MS = 10_000;
/** Interval of the checks for requests that take too long to arrive. */
const CHECK_MS = 1000;
/** Retry hint at the limit of concurrent requests. */
const BUSY_RETRY_MS = 1000;

/** No answer is a document of a browser, and none may be kept by others than its reader. */
const SECURITY_HEADERS = {
  "cache-control": "private, no-cache",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};
const HTTPS_ONLY = { "strict-transport-security": "max-age=31536000" };

/** Serves the API until disposed. Rejects with FaultError unavailable where the address is in use. */
export async function openServer(parts: ServerParts): Promise<HttpServer> {
  const { http, trouble } = parts;
  const server = await makeServer(http);
  server.removeContentTypeParser("text/plain");
  server.setErrorHandler((error: Error, _request, reply) => {
    sendProblem(reply, problemOf(error, http.limits, parts.logger));
  });
  server.setNotFoundHandler((request, reply) => {
    sendProblem(reply, buildProblem({ code: "not_found", kind: "path", id: pathOf(request) }));
  });
  limitRequests(server, http.limits, securityHeaders(http.tls));
  server.get("/healthz", () => ({ status: "ok" }));
  server.get("/readyz", (_request, reply) => {
    const because = trouble();
    return reply.code(because === undefined ? 200 : 503).send({ status: because ?? "ok" });
  });
  await server.register(async (api) => {
    addApi(api, parts);
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
      await server.close();
    },
  };
}

function securityHeaders(tls: HttpConfig["tls"]): Readonly<Record<string, string>> {
  return tls === undefined ? SECURITY_HEADERS : { ...SECURITY_HEADERS, ...HTTPS_ONLY };
}

async function makeServer({ tls, limits }: HttpConfig): Promise<FastifyInstance> {
  const common = {
    bodyLimit: limits.maxBodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: true,
    // Longer ones do not pass the limit of headers.
    routerOptions: { maxParamLength: MAX_HEADER_BYTES },
    frameworkErrors: (error: Error, _request: FastifyRequest, reply: FastifyReply) => {
      sendProblem(reply.headers(securityHeaders(tls)), problemOf(error, limits));
    },
    clientErrorHandler: answerUnread,
  } as const;
  const timeouts = { headersTimeout: limits.headersTimeoutMs, connectionsCheckingInterval: CHECK_MS };
  if (tls === undefined) {
    const server = fastify({ ...common, http: { ...timeouts, maxHeaderSize: MAX_HEADER_BYTES } });
    server.server.maxConnections = limits.maxConnections;
    return server;
  }
  const [cert, key] = await Promise.all([readFile(tls.certFile), readFile(tls.keyFile)]);
  const https = { cert, key, allowHTTP1: true, maxHeaderSize: MAX_HEADER_BYTES, maxHeaderListPairs: 100 };
  // Types differ between the versions of HTTP; requests and replies of both have everything that is used here.
  const server = fastify({
    ...common,
    http2: true,
    http2SessionTimeout: limits.requestTimeoutMs,
    https,
  } as never) as unknown as FastifyInstance;
  // The same limits for clients of HTTP/1.1, which the server of HTTP/2 has as properties only.
  Object.assign(server.server, timeouts, { maxConnections: limits.maxConnections });
  return server;
}

/** Refuses requests over the limits before anything of them is read, and ends those whose bodies come too slowly. */
function limitRequests(server: FastifyInstance, limits: HttpLimits, headers: Readonly<Record<string, string>>): void {
  let running = 0;
  server.addHook("onRequest", (request, reply, done) => {
    reply.headers(headers);
    running += 1;
    const late = setTimeout(() => request.raw.destroy(), limits.requestTimeoutMs + CHECK_MS).unref();
    const arrived = (): void => clearTimeout(late);
    request.raw.once("end", arrived);
    reply.raw.once("close", () => {
      arrived();
      running -= 1;
    });
    if (request.url.length > MAX_URL_CHARACTERS) {
      sendProblem(reply, buildRefusal("PATH_TOO_LONG", `the path and query are over ${MAX_URL_CHARACTERS} characters`));
    } else if (running > limits.maxRequests) {
      const what = "number of concurrent requests";
      const fault = { code: "limit_exceeded", what, limit: limits.maxRequests, retryAfterMs: BUSY_RETRY_MS } as const;
      // All users share this limit, and so no user has asked too often.
      sendProblem(reply, { ...buildProblem(fault), status: 503 });
    } else done();
  });
}

/** The paths of the table. Each request has a user before its path, its query and its body are looked at. */
function addApi(api: FastifyInstance, parts: ServerParts): void {
  const users = new WeakMap<FastifyRequest, User>();
  api.addHook("onRequest", async (request, reply) => {
    const signal = signalOf(reply);
    const user = await parts.authenticate(tokenOf(request) ?? "", signal);
    if (user !== undefined) users.set(request, user);
    else {
      void reply.header("www-authenticate", 'Bearer realm="muster"');
      const given = tokenOf(request) === undefined ? "a bearer token is needed" : "the token is unknown or expired";
      return sendProblem(reply, buildRefusal("UNAUTHENTICATED", given));
    }
  });
  for (const route of parts.routes) {
    api.route({
      method: route.http,
      url: route.path,
      handler: (request, reply) => answer(parts, route, users.get(request), { request, reply }),
    });
  }
  for (const [path, known] of Map.groupBy(parts.routes, ({ path }) => path)) {
    const allowed = new Set<string>(known.map(({ http }) => http));
    if (allowed.has("GET")) allowed.add("HEAD");
    api.route({
      method: METHODS.filter((method) => !allowed.has(method)),
      url: path,
      handler: (request, reply) => {
        void reply.header("allow", [...allowed].join(", "));
        const detail = `${request.method} is not possible on this path; ${[...allowed].join(", ")} are`;
        return sendProblem(reply, buildRefusal("METHOD_NOT_ALLOWED", detail));
      },
    });
  }
}

async function answer(
  { call }: ServerParts,
  route: Route,
  user: User | undefined,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
): Promise<FastifyReply> {
  if (user === undefined) throw new Error(`${route.path}: a request has no user`);
  const { params, query, body } = request as Asked;
  const asking = { params, query, body, signal: signalOf(reply), by: user.name, requestId: randomUUID() };
  const json = JSON.stringify(await answerRequest(route, asking, call));
  void reply.type("application/json; charset=utf-8");
  if (route.change !== undefined) return reply.send(json);
  const tag = `"${createHash("sha256").update(json).digest("base64url").slice(0, 27)}"`;
  void reply.header("etag", tag);
  return isKnown(request.headers["if-none-match"], tag) ? reply.code(304).send() : reply.send(json);
}

/** Whether the client has this version. */
function isKnown(header: string | undefined, tag: string): boolean {
  const known = header?.split(",").map((each) => each.trim().replace(/^W\//, ""));
  return known !== undefined && (known.includes(tag) || known.includes("*"));
}

/** Aborted when the client closes its connection before it has the answer. */
function signalOf(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => {
    if (!reply.raw.writableFinished) gone.abort();
  });
  return gone.signal;
}

function tokenOf(request: FastifyRequest): string | undefined {
  return /^bearer +([A-Za-z0-9._~+/=-]+)$/i.exec(request.headers.authorization ?? "")?.[1];
}

function pathOf(request: FastifyRequest): string {
  return (request.url.split("?")[0] ?? "").slice(0, 200);
}

function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  const seconds = retryAfterSeconds(problem);
  if (seconds !== undefined) void reply.header("retry-after", String(seconds));
  return reply
    .code(problem.status)
    .type("application/problem+json")
    .send(Buffer.from(JSON.stringify(problem)));
}
