import { once } from "node:events";
import { constants } from "node:http2";
import { throwFault } from "@muster/faults";
import type { FastifyReply } from "fastify";
import { cutReply } from "./cut-reply.ts";

/** A reply that is written in chunks. */
export type HttpStream = {
  /** Aborted when the client disconnects or the stream has ended. */
  readonly closed: AbortSignal;
  /** Resolves when the stream can take more data. Rejects with FaultError deadline_exceeded if the client reads no byte for `stallMs`. */
  write(piece: string | Uint8Array): Promise<void>;
  /** Ends the stream; earlier chunks arrive if the client reads them soon. */
  end(last?: string): void;
  /** Breaks the stream, and over HTTP/1.1 its connection, so that the client detects the missing end. Has no effect after `end`. */
  break(): void;
};

/** Time for the client to read the chunks that were written before the end. */
const END_MS = 5000;

/** Takes over the reply from the framework, and sends its headers. */
export function openHttpStream(reply: FastifyReply, contentType: string, stallMs: number): HttpStream {
  const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined);
  reply.hijack();
  const { raw } = reply;
  const gone = new AbortController();
  const { signal: closed } = gone;
  raw.once("close", () => gone.abort());
  raw.on("error", () => gone.abort());
  // The header disables buffering of the stream in proxies.
  raw.writeHead(200, { ...Object.fromEntries(headers), "content-type": contentType, "x-accel-buffering": "no" });
  raw.flushHeaders();
  const cut = (): void => cutReply(raw, constants.NGHTTP2_INTERNAL_ERROR);
  return {
    closed,
    write: async (piece) => {
      if (closed.aborted || raw.write(piece)) return;
      const late = AbortSignal.timeout(stallMs);
      await once(raw, "drain", { signal: AbortSignal.any([closed, late]) }).catch((error: unknown) => {
        if (closed.aborted) return;
        if (!late.aborted) throw error;
        throwFault({ code: "deadline_exceeded", operation: "reading the stream", timeoutMs: stallMs });
      });
    },
    end: (last) => {
      gone.abort();
      raw.end(last);
      setTimeout(cut, END_MS).unref();
    },
    break: () => {
      gone.abort();
      if (!raw.writableEnded) cut();
    },
  };
}
