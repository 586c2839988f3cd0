import type { ServerHttp2Stream } from "node:http2";
import type { FastifyReply } from "fastify";

type RawReply = FastifyReply["raw"];

/** Returns the stream that carries the answer; undefined over HTTP/1.1. */
export function http2StreamOf(raw: RawReply): ServerHttp2Stream | undefined {
  return "stream" in raw ? (raw.stream as ServerHttp2Stream) : undefined;
}

/**
 * Ends an incomplete request or answer, so that the client detects the missing end: over HTTP/2 its stream, with the code; over HTTP/1.1 its connection. Has no
 * effect after the end. `destroy` alone would end an HTTP/2 stream as if the answer were complete.
 */
export function cutReply(raw: RawReply, http2Code: number): void {
  const stream = http2StreamOf(raw);
  if (stream === undefined) raw.destroy();
  else stream.close(http2Code);
}
