import { SpanKind } from "@opentelemetry/api";
import { FaultError, faultOf } from "@muster/faults";
import {
  subjects,
  type MessageOf,
  type MethodDescriptor,
  type PropertiesOf,
  type ServiceDescriptor,
} from "@muster/proto";
import { injectTrace, inSpan } from "@muster/tracing";
import { backoffMs, pause } from "./backoff.ts";
import type { Bus, Reply } from "./bus.ts";
import { encodeMessage, tryDecode, typeName } from "./messages.ts";
import { faultOfReply, header } from "./wire-headers.ts";

export type CallOptions = {
  /** Time for the whole call, retries included. Default 5000. Crosses the wire and ends the work there too. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
};

/** A service as its callers see it: one function a method, typed by the generated code. Each rejects with FaultError and nothing else. */
export type Client<Service extends ServiceDescriptor> = {
  readonly [Name in keyof Service["methods"]]: Call<Service["methods"][Name]>;
};

type Call<Method extends MethodDescriptor> = (
  request: PropertiesOf<Method["request"]>,
  options?: CallOptions,
) => Promise<MessageOf<Method["reply"]>>;

export const DEFAULT_TIMEOUT_MS = 5000;

/** Between two attempts while nobody answers. */
const RETRY = { firstMs: 20, mostMs: 500 };
/** With less than this left nobody is asked again: an attempt that runs out of time cannot say any more that nothing was done. */
const LAST_ATTEMPT_MS = 50;
/** Hint for callers that found nobody within their deadline. */
const ABSENT_RETRY_MS = 1000;

/** Calls a service. While nobody answers (a restart, a change of leader) it asks again until the deadline, because nothing has been done yet. */
export function client<Service extends ServiceDescriptor>(bus: Bus, service: Service): Client<Service> {
  const calls = Object.entries(service.methods).map(([name, method]) => [name, callOf(bus, service, method)]);
  // The entries have the keys of the descriptor, which Object.fromEntries cannot express.
  return Object.fromEntries(calls) as Client<Service>;
}

/** What is the same in every call of one method, made once. */
type Route = {
  readonly bus: Bus;
  readonly area: string;
  readonly subject: string;
  readonly operation: string;
  readonly type: string;
};

/** A call whose types the descriptor has and the compiler has lost. */
type AnyCall = (request: object, options?: CallOptions) => Promise<unknown>;

function callOf(bus: Bus, service: ServiceDescriptor, method: MethodDescriptor): AnyCall {
  const { area } = service;
  const subject = subjects.request(area, method.verb);
  const operation = `${area}.${method.verb}`;
  const route: Route = { bus, area, subject, operation, type: typeName(method.request) };
  const spanName = `send ${subject}`;
  const span = {
    kind: SpanKind.CLIENT,
    attributes: {
      "messaging.system": "nats",
      "messaging.operation.type": "send",
      "messaging.destination.template": subject,
      "rpc.service": service.name,
      "rpc.method": method.name,
    },
  };
  return (request, options = {}) =>
    inSpan("@muster/bus", spanName, span, async () => {
      const reply = await ask(route, encodeRequest(method, request), options);
      const fault = faultOfReply(reply);
      if (fault !== undefined) throw new FaultError(fault);
      const message: unknown = tryDecode(method.reply, reply.payload);
      if (message === undefined) throw new FaultError({ code: "internal", operation });
      return message;
    });
}

function encodeRequest(method: MethodDescriptor, request: object): Uint8Array {
  try {
    return encodeMessage(method.request, request);
  } catch (cause) {
    const reason = `is not a ${typeName(method.request)}`;
    throw new FaultError({ code: "invalid_request", field: "request", reason }, { cause });
  }
}

async function ask(route: Route, payload: Uint8Array, options: CallOptions): Promise<Reply> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  if (signal === undefined) return askUntil(route, payload, timeoutMs, undefined, undefined);
  const callId = crypto.randomUUID();
  const cancel = (): void => {
    route.bus.signal(subjects.cancel(route.area), new Uint8Array(), new Map([[header.callId, callId]]));
  };
  signal.addEventListener("abort", cancel, { once: true });
  try {
    return await askUntil(route, payload, timeoutMs, signal, callId);
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

async function askUntil(
  route: Route,
  payload: Uint8Array,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  callId: string | undefined,
): Promise<Reply> {
  const { bus, area, subject, operation } = route;
  const endMs = performance.now() + timeoutMs;
  let leftMs = timeoutMs;
  for (let attempt = 1; ; attempt += 1) {
    if (signal?.aborted === true) throw new FaultError({ code: "cancelled", operation });
    try {
      const headers = requestHeaders(route, leftMs, callId);
      return await bus.request(
        subject,
        payload,
        signal === undefined ? { timeoutMs: leftMs, headers } : { timeoutMs: leftMs, headers, signal },
      );
    } catch (cause) {
      const fault = faultOf(cause);
      if (fault?.code === "deadline_exceeded")
        throw new FaultError({ code: "deadline_exceeded", operation, timeoutMs }, { cause });
      if (fault?.code === "cancelled") throw new FaultError({ code: "cancelled", operation }, { cause });
      if (fault?.code !== "unavailable") throw cause;
      leftMs = endMs - performance.now();
      if (leftMs > 0) await pause(Math.min(backoffMs(attempt, RETRY), leftMs), signal);
      leftMs = endMs - performance.now();
      if (leftMs < LAST_ATTEMPT_MS)
        throw new FaultError({ code: "unavailable", dependency: area, retryAfterMs: ABSENT_RETRY_MS }, { cause });
    }
  }
}

function requestHeaders(route: Route, timeoutMs: number, callId: string | undefined): Map<string, string> {
  const headers = new Map<string, string>([
    [header.type, route.type],
    [header.timeout, String(Math.ceil(timeoutMs))],
  ]);
  if (callId !== undefined) headers.set(header.callId, callId);
  injectTrace(headers);
  return headers;
}
