import { describeFault, WIRE_CODE, type Fault } from "@muster/faults";
import { MAX_TIMER_MS } from "@muster/backoff";
import type { Headers, Reply } from "./bus.ts";
import { decodeFault, encodeFault } from "./messages.ts";

/** Every header that Muster writes or reads. The NATS services protocol defines the first two. */
export const header = {
  errorCode: "Nats-Service-Error-Code",
  errorText: "Nats-Service-Error",
  /** Full name of the protobuf message, for operators who inspect messages. */
  type: "Muster-Type",
  /** Milliseconds that the caller still waits. A duration, not a timestamp, so that clocks may differ. */
  timeout: "Muster-Timeout-Ms",
  /** On a fault: the service refused the request unread; the client may retry at the time in the fault. */
  refused: "Muster-Refused",
  /** Id of one call, for its cancellation. */
  callId: "Muster-Call-Id",
  /** The reason of a dead letter, its origin, and its processing so far. */
  deadReason: "Muster-Dead-Reason",
  deadSubject: "Muster-Dead-Subject",
  deadStream: "Muster-Dead-Stream",
  deadConsumer: "Muster-Dead-Consumer",
  deadSequence: "Muster-Dead-Sequence",
  deadDeliveries: "Muster-Dead-Deliveries",
  /** Bytes of a payload that was omitted because it did not fit beside the reason. */
  deadLost: "Muster-Dead-Lost-Bytes",
} as const;

const NO_HEADERS: Headers = new Map<string, string>();
const NOT_IN_A_HEADER = /[\r\n]+/g;

export function toReply(payload: Uint8Array): Reply {
  return { payload, headers: NO_HEADERS };
}

/** Builds the reply that carries a fault: two standard headers for any NATS client, a protobuf body for Muster. */
export function toFaultReply(fault: Fault): Reply {
  const text = describeFault(fault).slice(0, 512);
  return {
    payload: encodeFault(fault),
    headers: new Map([
      [header.errorCode, String(WIRE_CODE[fault.code])],
      [header.errorText, getHeaderText(text)],
    ]),
  };
}

/** Builds the reply to a request that was refused before it was decoded: the caller may retry even a write after the delay in the fault. */
export function toRefusalReply(fault: Fault): Reply {
  const { payload, headers } = toFaultReply(fault);
  return { payload, headers: new Map([...headers, [header.refused, "true"]]) };
}

export function isRefusal(reply: Reply): boolean {
  return reply.headers.has(header.refused);
}

export function findReplyFault(reply: Reply): Fault | undefined {
  const code = reply.headers.get(header.errorCode);
  if (code === undefined) return undefined;
  return decodeFault(reply.payload, Number(code), reply.headers.get(header.errorText) ?? "");
}

/** Milliseconds that the caller still waits; the default if the header is missing or invalid. */
export function parseTimeout(headers: Headers, defaultMs: number): number {
  const text = headers.get(header.timeout);
  const timeoutMs = text === undefined ? Number.NaN : Number(text);
  return Number.isFinite(timeoutMs) && timeoutMs >= 0 ? Math.min(timeoutMs, MAX_TIMER_MS) : defaultMs;
}

/** Replaces the characters that would end a header line. */
export function getHeaderText(text: string): string {
  return text.includes("\n") || text.includes("\r") ? text.replaceAll(NOT_IN_A_HEADER, " ") : text;
}
