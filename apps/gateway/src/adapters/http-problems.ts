import type { Socket } from "node:net";
import { findFault } from "@muster/faults";
import type { Logger } from "@muster/service";
import type { FastifyReply } from "fastify";
import type { HttpLimits } from "../config.ts";
import { buildProblem, buildRefusal, retryAfterSeconds, type Problem } from "../domain/build-problem.ts";

type HttpError = Error & { readonly code?: unknown; readonly statusCode?: unknown };

/** The context of a problem besides the error. */
export type ProblemContext = {
  readonly limits: Pick<HttpLimits, "maxBodyBytes">;
  readonly logger: Pick<Logger, "info" | "warn" | "error">;
};

/** Converts an error that ends a request into a problem. It logs an unexpected error, and does not reveal its text. */
export function problemOf(thrown: unknown, { limits, logger }: ProblemContext): Problem {
  const fault = findFault(thrown);
  if (fault !== undefined) return buildProblem(fault);
  const error: HttpError = thrown instanceof Error ? thrown : new Error(String(thrown));
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return buildRefusal("BODY_TOO_LARGE", `the body is over ${limits.maxBodyBytes} bytes`);
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return buildRefusal("UNSUPPORTED_MEDIA_TYPE", "the content type application/json is needed");
    case "FST_ERR_CTP_INVALID_JSON_BODY":
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
      return buildProblem({ code: "invalid_request", field: "body", reason: lowerCaseFirst(error.message) });
    case "FST_ERR_BAD_URL":
      return buildRefusal("MALFORMED_REQUEST", "the path is not well encoded");
    case "ECONNRESET":
      return buildProblem({ code: "cancelled", operation: "the request" });
  }
  if (error.statusCode === 400)
    return buildProblem({ code: "invalid_request", field: "body", reason: lowerCaseFirst(error.message) });
  logger.error({ err: thrown }, "a request failed inside the gateway");
  return buildProblem({ code: "internal", operation: "the request" });
}

/** Errors of connections that cannot carry an answer. */
const UNANSWERABLE = new Set<string | undefined>(["ECONNRESET", "ERR_TLS_HANDSHAKE_TIMEOUT"]);
/** Time for a client to read the answer to an unreadable request, and to close the connection. */
const LINGER_MS = 1000;

/** Answers an unreadable request, for example with slow headers. Closes its connection, even if the client keeps its side open. */
export function answerUnreadableRequest(error: Error & { readonly code?: string | undefined }, socket: Socket): void {
  if (UNANSWERABLE.has(error.code) || !socket.writable) {
    socket.destroy();
    return;
  }
  const problem = unreadProblem(error.code);
  const body = JSON.stringify(problem);
  socket.end(
    [
      `HTTP/1.1 ${problem.status} ${problem.title}`,
      "connection: close",
      "content-type: application/problem+json",
      `content-length: ${Buffer.byteLength(body)}`,
      "",
      body,
    ].join("\r\n"),
  );
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

function unreadProblem(code: string | undefined): Problem {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return buildRefusal("REQUEST_TIMEOUT", "the request arrived too slowly");
  if (code === "HPE_HEADER_OVERFLOW") return buildRefusal("HEADERS_TOO_LARGE", "the headers are too large");
  return buildRefusal("MALFORMED_REQUEST", "the request is not HTTP");
}

function lowerCaseFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  const seconds = retryAfterSeconds(problem);
  if (seconds !== undefined) void reply.header("retry-after", String(seconds));
  return reply
    .code(problem.status)
    .type("application/problem+json")
    .send(Buffer.from(JSON.stringify(problem)));
}
