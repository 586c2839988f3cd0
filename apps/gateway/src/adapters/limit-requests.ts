import { constants } from "node:http2";
import { within } from "@muster/backoff";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { BUSY_RETRY_MS, runningRequests } from "../api/running-requests.ts";
import type { HttpLimits } from "../config.ts";
import { buildProblem, buildRefusal, type Problem } from "../domain/build-problem.ts";
import { isHost } from "../domain/decide-origin.ts";
import { cutReply, http2StreamOf } from "./cut-reply.ts";
import { sendProblem } from "./http-problems.ts";
import { SESSION, SIGN_IN_TIMEOUT_MS } from "./session-routes.ts";

/** Interval of the checks for requests that arrive too slowly. */
export const CHECK_MS = 1000;
const MAX_URL_CHARACTERS = 8192;
/** The share of one address in the concurrent requests whose user and body the gateway has not received yet. */
const ADDRESS_SHARE = 0.25;
const MIN_ADDRESS_SHARE = 8;
/** The time for running requests to end when the gateway stops. */
const FINISH_MS = 15_000;

const STOPPING = buildProblem({ code: "unavailable", dependency: "this gateway", retryAfterMs: BUSY_RETRY_MS });

/** Paths that no limit refuses, because they report whether the process is healthy. */
const PROBES = new Set<string | undefined>(["/healthz", "/readyz"]);

type Requests = {
  /** Removes a request from the count of concurrent requests. */
  readonly leave: (request: FastifyRequest) => void;
  /** Refuses new requests from now on. Resolves once no request runs, at the latest after FINISH_MS. */
  readonly finish: () => Promise<void>;
};

/** Refuses requests above the limits before any part of them is read. Ends a request whose body arrives, or whose answer is read, too slowly. */
export function limitRequests(
  server: FastifyInstance,
  limits: HttpLimits,
  headers: Readonly<Record<string, string>>,
): Requests {
  const maxArriving = Math.max(MIN_ADDRESS_SHARE, Math.floor(limits.maxRequests * ADDRESS_SHARE));
  const requests = runningRequests<FastifyRequest>({ maxRequests: limits.maxRequests, maxArriving });
  const late = new Map<FastifyRequest, NodeJS.Timeout>();
  const finished = Promise.withResolvers<undefined>();
  let isStopping = false;
  const leave = (request: FastifyRequest): void => {
    requests.leave(request);
    if (isStopping && requests.running === 0) finished.resolve(undefined);
  };
  const arrive = (request: FastifyRequest): void => {
    clearTimeout(late.get(request));
    late.delete(request);
    requests.arrive(request);
  };
  const cutLate = (request: FastifyRequest, { raw }: FastifyReply, timeoutMs: number): void => {
    late.set(request, setTimeout(() => cutReply(raw, constants.NGHTTP2_CANCEL), timeoutMs + CHECK_MS).unref());
  };
  const begin = (request: FastifyRequest, reply: FastifyReply): Problem | undefined => {
    const fault = requests.begin(request, keepAddress(request));
    if (canClientDelay(request, reply)) {
      const maxMs = request.routeOptions.url === SESSION ? SIGN_IN_TIMEOUT_MS : Infinity;
      cutLate(request, reply, Math.min(maxMs, limits.requestTimeoutMs));
    }
    // A reply to HEAD over HTTP/2 does not report that its stream closes.
    const closing = http2StreamOf(reply.raw) ?? reply.raw;
    closing.once("close", () => {
      arrive(request);
      leave(request);
    });
    if (request.url.length > MAX_URL_CHARACTERS)
      return buildRefusal("PATH_TOO_LONG", `the path and query are over ${MAX_URL_CHARACTERS} characters`);
    if (isStopping) return STOPPING;
    if (!isHost(request.host)) return buildRefusal("MALFORMED_REQUEST", "the header Host is no name with a port");
    // The status is 503, because all users share these limits, and no single user exceeds them.
    return fault && { ...buildProblem(fault), status: 503 };
  };
  server.addHook("onRequest", (request, reply, done) => {
    reply.headers(headers);
    if (PROBES.has(request.routeOptions.url)) {
      done();
      return;
    }
    const refusal = begin(request, reply);
    // HTTP/2 has no such header; its connections end with the server.
    if (isStopping && request.raw.httpVersionMajor === 1) reply.header("connection", "close");
    if (refusal === undefined) done();
    else sendProblem(reply, refusal);
  });
  server.addHook("preHandler", (request, _reply, done) => {
    arrive(request);
    done();
  });
  server.addHook("onSend", (request, reply, _body, done) => {
    const isLimited = !PROBES.has(request.routeOptions.url);
    if (isLimited && !late.has(request)) cutLate(request, reply, limits.requestTimeoutMs);
    done();
  });
  return {
    leave,
    finish: async () => {
      isStopping = true;
      if (requests.running > 0) await within(FINISH_MS, finished.promise);
    },
  };
}

/** Returns the address of the client, and stores it for the life of the request: a closed HTTP/2 stream has no address. */
function keepAddress(request: { readonly ip: string | undefined }): string {
  const ip = request.ip ?? "";
  Object.defineProperty(request, "ip", { value: ip });
  return ip;
}

/** Returns whether the client can delay the request: by its body, or over HTTP/2 by reading the refusal slowly. */
function canClientDelay({ method, headers }: FastifyRequest, { raw }: FastifyReply): boolean {
  const isRead = method === "GET" || method === "HEAD";
  return !isRead || "content-length" in headers || "transfer-encoding" in headers || http2StreamOf(raw) !== undefined;
}
