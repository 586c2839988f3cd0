import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { JsonObject } from "./json.ts";
import { type Failure, FailureError, buildFailureStatus, internalError } from "./status.ts";

/** One request with the means to answer it. */
export type HttpExchange = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly path: string;
  readonly query: URLSearchParams;
  /** The tunnel of a client that requested a protocol upgrade. */
  readonly tunnel?: Tunnel | undefined;
};

export type Tunnel = {
  readonly socket: Duplex;
  /** The bytes that arrived behind the request. */
  readonly head: Buffer;
  /** Takes the connection over: it serves no more answers. */
  readonly open: () => void;
};

/** Answers once with a JSON object. Does nothing if the client has gone or an answer has begun. */
export function sendAnswer(
  exchange: HttpExchange,
  code: number,
  body: JsonObject,
  warnings: readonly string[] = [],
): void {
  answerJson(exchange, code, Buffer.from(JSON.stringify(body)), warnings);
}

/** As `answer`, with serialised JSON. */
export function answerJson(
  { response }: HttpExchange,
  code: number,
  text: Buffer,
  warnings: readonly string[] = [],
): void {
  if (response.headersSent || response.destroyed) return;
  for (const warning of warnings) response.appendHeader("warning", `299 - ${JSON.stringify(warning)}`);
  response.writeHead(code, {
    "content-type": "application/json",
    "content-length": text.length,
    "cache-control": "no-cache, private",
  });
  response.end(text);
}

export function answerFailure(exchange: HttpExchange, failure: Failure): void {
  const seconds = failure.details?.retryAfterSeconds;
  if (seconds !== undefined && !exchange.response.headersSent) exchange.response.setHeader("retry-after", seconds);
  sendAnswer(exchange, failure.code, buildFailureStatus(failure));
}

export function answerBytes({ response }: HttpExchange, type: string, bytes: Uint8Array): void {
  response.writeHead(200, { "content-type": type, "content-length": bytes.length });
  response.end(bytes);
}

export function answerText({ response }: HttpExchange, code: number, text: string): void {
  response.writeHead(code, { "content-type": "text/plain; charset=utf-8", "content-length": Buffer.byteLength(text) });
  response.end(text);
}

/** The only conversion of errors of a request: a refusal becomes its answer; any other error is a defect, which goes to `onDefect` and becomes 500. */
export function answerError(exchange: HttpExchange, error: unknown, onDefect: (error: unknown) => void): void {
  if (error instanceof FailureError) {
    answerFailure(exchange, error.failure);
    return;
  }
  if (exchange.request.destroyed && exchange.response.destroyed) return;
  onDefect(error);
  answerFailure(exchange, internalError("the request met a defect of the server"));
  // An answer that has begun cannot be replaced, so a broken connection is the only signal left.
  if (!exchange.response.writableEnded) exchange.response.destroy();
}
