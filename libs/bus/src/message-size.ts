import { FaultError, type Fault } from "@muster/faults";
import type { Headers } from "./bus.ts";

/** Bytes of `NATS/1.0` and the final empty line; each header adds four bytes to its name and value. */
const FRAME_BYTES = 12;
const LINE_BYTES = 4;
/** Maximum UTF-8 bytes per JavaScript character of a header. */
const MAX_CHARACTER_BYTES = 3;

/** Size in bytes of a message that exceeds the limit, headers counted; undefined if it fits. */
export function countExcessiveBytes(
  payload: Uint8Array,
  headers: Headers | undefined,
  limit: number,
): number | undefined {
  let most = payload.length + FRAME_BYTES;
  if (headers !== undefined)
    for (const [name, value] of headers) most += name.length + MAX_CHARACTER_BYTES * value.length + LINE_BYTES;
  if (most <= limit) return undefined;
  const bytes = messageBytes(payload, headers);
  return bytes > limit ? bytes : undefined;
}

/** Builds the fault of an oversized message; `what` is "message to muster.evt..." or "reply to ...". */
export function buildTooLargeFault(what: string, bytes: number, limit: number): Fault {
  const size = `size of ${bytes} bytes of a ${what} (max_payload of the NATS server)`;
  return { code: "limit_exceeded", what: size, limit, retryAfterMs: 0 };
}

/** Refuses an oversized message before it is written, because the server closes the connection of a client that sends one. */
export function checkSize(subject: string, payload: Uint8Array, headers: Headers | undefined, limit: number): void {
  const bytes = countExcessiveBytes(payload, headers, limit);
  if (bytes !== undefined) throw new FaultError(buildTooLargeFault(`message to ${subject}`, bytes, limit));
}

function messageBytes(payload: Uint8Array, headers: Headers | undefined): number {
  if (headers === undefined || headers.size === 0) return payload.length;
  let bytes = payload.length + FRAME_BYTES;
  for (const [name, value] of headers) bytes += name.length + Buffer.byteLength(value) + LINE_BYTES;
  return bytes;
}
