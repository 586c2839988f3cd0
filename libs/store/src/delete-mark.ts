import { PubHeaders } from "@nats-io/jetstream";
import { headers, type MsgHdrs } from "@nats-io/nats-core";
import type { StreamMessage } from "./consume-in-order.ts";

const OPERATION = "KV-Operation";
const MARKER_REASON = "Nats-Marker-Reason";

/** Headers of the message that replaces a deleted value; the server keeps it for this time. */
export function buildDeleteMark(ttlMs: number): MsgHdrs {
  const mark = headers();
  mark.set(OPERATION, "DEL");
  mark.set(PubHeaders.MessageTTL, `${ttlMs / 1000}s`);
  return mark;
}

/** Whether the message is a deletion mark, which is empty. */
export function isDeleted(message: StreamMessage): boolean {
  return message.payload.length === 0 && isDeleteMark(message.headers);
}

/** Whether the headers are those of a deletion mark, or of the mark that the server writes for an expired value. */
export function isDeleteMark(header: MsgHdrs | undefined): boolean {
  if (header === undefined) return false;
  if (header.has(MARKER_REASON)) return true;
  const operation = header.get(OPERATION);
  return operation === "DEL" || operation === "PURGE";
}
