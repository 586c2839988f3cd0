import { FaultError, type Fault } from "@muster/faults";
import type { Headers } from "./bus.ts";

/** `NATS/1.0` and the empty line at the end; each header costs four bytes more than its name and value. */
const FRAME_BYTES = 12;
const LINE_BYTES = 4;
/** A character of a header is at most this long in UTF-8, counted as JavaScript counts. */
const MAX_CHARACTER_BYTES = 3;

/** Whether a message is larger than the server takes, headers counted: its size in bytes then, else undefined. */
export function excessiveBytes(payload: Uint8Array, headers: Headers | undefined, limit: number): number | undefined {
  let most = payload.length + FRAME_BYTES;
  if (headers !== undefined)
    for (const [name, value] of headers) most += name.length + MAX_CHARACTER_BYTES * value.length + LINE_BYTES;
  if (most <= limit) return undefined;
  const bytes = messageBytes(payload, headers);
  return bytes > limit ? bytes : undefined;
}

/** The fault of a message of this size; `what` is "message to muster.evt..." or "reply to ...". */
export function tooLarge(what: string, bytes: number, limit: number): Fault {
  const size = `size of ${bytes} bytes of a ${what} (max_payload of the NATS server)`;
  return { code: "limit_exceeded", what: size, limit, retryAfterMs: 0 };
}

/** Refuses a message before anything of it goes to the wire: a server ends the connection of a client that sends more than it takes. */
export function checkSize(subject: string, payload: Uint8Array, headers: Headers | undefined, limit: number): void {
  const bytes = excessiveBytes(payload, headers, limit);
  if (bytes !== undefined) throw new FaultError(tooLarge(`message to ${subject}`, bytes, limit));
}

function messageBytes(payload: Uint8Array, headers: Headers | undefined): number {
  if (headers === undefined || headers.size === 0) return payload.length;
  let bytes = payload.length + FRAME_BYTES;
  for (const [name, value] of headers) bytes += name.length + Buffer.byteLength(value) + LINE_BYTES;
  return bytes;
}
