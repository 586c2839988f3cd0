import { MsgHdrsImpl, type MsgHdrs } from "@nats-io/nats-core";
import type { Headers } from "./bus.ts";
import { getHeaderText } from "./wire-headers.ts";

const NONE: Headers = new Map<string, string>();

/** Builds the headers of the client library directly: its `append` normalises and searches for each key. */
export function toNatsHeaders(headers: Headers): MsgHdrs {
  const record: Record<string, string[]> = {};
  for (const [key, value] of headers) record[key] = [getHeaderText(value)];
  return MsgHdrsImpl.fromRecord(record);
}

export function toHeaders(headers: MsgHdrs | undefined): Headers {
  if (headers === undefined) return NONE;
  const result = new Map<string, string>();
  for (const [key, values] of headers) if (values[0] !== undefined) result.set(key, values[0]);
  return result;
}
