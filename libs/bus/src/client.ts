import { SpanKind } from "@opentelemetry/api";
import { FaultError, findFault } from "@muster/faults";
import {
  subjects,
  type MessageOf,
  type MethodDescriptor,
  type PropertiesOf,
  type ServiceDescriptor,
} from "@muster/proto";
import { injectTrace, inSpan } from "@muster/tracing";
import { computeBackoffMs, pause } from "@muster/backoff";
import type { Bus, Headers, Reply, RequestOptions, RequestRepeat } from "./bus.ts";
import { encodeMessage, tryDecode, getTypeName } from "./messages.ts";
import { findReplyFault, header, isRefusal } from "./wire-headers.ts";

export type CallOptions = {
  /** Time limit of the whole call, retries included. Default 5000. The service receives it and aborts the handler at the same limit. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Overrides the setting of the client for this call. */
  readonly repeat?: Repeat;
};

/**
 * Whether a call may be repeated. `safely` (default): repeats it after an unavailable answer, a silent replica or a lost connection. This is safe because every
 * request of Muster reads, or carries an id for deduplication. `never`: retries only if no replica received the request, or the service refused it before
 * decoding it.
 */
type Repeat = "safely" | "never";

/** A typed client of a service: one function per method. Each rejects with FaultError and nothing else. */
export type Client<Service extends ServiceDescriptor> = {
  readonly [Name in keyof Service["methods"]]: Call<Service["methods"][Name]>;
};

type Call<Method extends MethodDescriptor> = (
  request: PropertiesOf<Method["request"]>,
  options?: CallOptions,
) => Promise<MessageOf<Method["reply"]>>;

export const DEFAULT_TIMEOUT_MS = 5000;

/** Back-off between two attempts without a responder. */
const RETRY = { firstMs: 20, maxMs: 500 };
/** Time without an answer to a read before another replica also receives it. It doubles with each attempt. */
const READ_SILENCE = { firstMs: 500, maxMs: 2000 };
/**
 * Time without an answer to a write, as a fraction of its time limit, before a second replica receives it. It is longer than for a read, because fencing costs
 * more. `maxMs` caps it for long calls.
 */
const WRITE_SILENCE = { part: 1 / 3, minMs: 500, maxMs: 30_000 };
/** Disables retries if less time is left: an attempt that times out cannot prove that the service did nothing. */
const LAST_ATTEMPT_MS = 50;
/** Retry hint for callers that found no responder within their deadline. */
const ABSENT_RETRY_MS = 1000;

/**
 * Calls a service. Hides a restart, a leader change and the death of a replica from callers with enough time: retries with back-off until the deadline. Also
 * retries a refused request after the delay in the fault.
 */
export function makeClient<Service extends ServiceDescriptor>(
  bus: Bus,
  service: Service,
  options: { readonly repeat?: Repeat } = {},
): Client<Service> {
  const { repeat = "safely" } = options;
  const calls = Object.entries(service.methods).map(([name, method]) => {
    const decode = (payload: Uint8Array): unknown => tryDecode(method.reply, payload);
    return [name, makeCall(bus, service, method, { repeat, decode })];
  });
  // The entries have the keys of the descriptor, which Object.fromEntries cannot express.
  return Object.fromEntries(calls) as Client<Service>;
}

/** Calls the methods of a service by name and leaves replies encoded, for callers that compare replies before decoding them. */
export type ByteClient = Readonly<Record<string, (request: object, options?: CallOptions) => Promise<Uint8Array>>>;

/** Calls a service as `makeClient` does. */
export function makeByteClient(bus: Bus, service: ServiceDescriptor): ByteClient {
  const calls = Object.entries(service.methods).map(([name, method]) => {
    const decode = (payload: Uint8Array): Uint8Array => payload;
    return [name, makeCall(bus, service, method, { repeat: "safely", decode })];
  });
  return Object.fromEntries(calls) as ByteClient;
}

/** The values that all calls of one method share, computed once. */
type Route = {
  readonly bus: Bus;
  readonly area: string;
  readonly subject: string;
  readonly operation: string;
  readonly method: MethodDescriptor;
  readonly type: string;
  readonly repeat: Repeat;
};

/** A call without static types: the descriptor has them, but the compiler cannot express them here. */
type AnyCall = (request: object, options?: CallOptions) => Promise<unknown>;

/** `decode` returns undefined for bytes that are not a reply. */
function makeCall(
  bus: Bus,
  service: ServiceDescriptor,
  method: MethodDescriptor,
  { repeat, decode }: { readonly repeat: Repeat; readonly decode: (payload: Uint8Array) => unknown },
): AnyCall {
  const { area } = service;
  const subject = subjects.request(area, method.verb);
  const operation = `${area}.${method.verb}`;
  const route: Route = { bus, area, subject, operation, method, type: getTypeName(method.request), repeat };
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
      const reply = await ask(route, buildQuestion(method, request), options);
      const message = decode(reply.payload);
      if (message === undefined) throw new FaultError({ code: "internal", operation });
      return message;
    });
}

/** An encoded request. */
type Question = {
  readonly payload: Uint8Array;
  /** How long the service may hold the answer of a long poll (`wait_ms`), and the request that is sent after that time. */
  readonly waitMs: number;
  readonly withoutWait: Uint8Array | undefined;
};

function buildQuestion(method: MethodDescriptor, request: object): Question {
  const payload = encodeRequest(method, request);
  const waitMs = "waitMs" in request && typeof request.waitMs === "number" ? request.waitMs : 0;
  return { payload, waitMs, withoutWait: waitMs > 0 ? encodeRequest(method, { ...request, waitMs: 0 }) : undefined };
}

function encodeRequest(method: MethodDescriptor, request: object): Uint8Array {
  try {
    return encodeMessage(method.request, request);
  } catch (cause) {
    const reason = `is not a ${getTypeName(method.request)}`;
    throw new FaultError({ code: "invalid_request", field: "request", reason }, { cause });
  }
}

function ask(route: Route, question: Question, options: CallOptions): Promise<Reply> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  if (signal === undefined) return askUntil(route, question, options, timeoutMs, undefined);
  return askUntilAborted(route, question, options, timeoutMs, signal);
}

async function askUntilAborted(
  route: Route,
  question: Question,
  options: CallOptions,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Reply> {
  const callId = crypto.randomUUID();
  const cancel = (): void => {
    route.bus.signal(subjects.cancel(route.area), new Uint8Array(), new Map([[header.callId, callId]]));
  };
  signal.addEventListener("abort", cancel, { once: true });
  try {
    return await askUntil(route, question, options, timeoutMs, callId);
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

async function askUntil(
  route: Route,
  question: Question,
  options: CallOptions,
  timeoutMs: number,
  callId: string | undefined,
): Promise<Reply> {
  const { signal, repeat = route.repeat } = options;
  const endMs = performance.now() + timeoutMs;
  let leftMs = timeoutMs;
  let answered: FaultError | undefined;
  for (let attempt = 1; ; attempt += 1) {
    let waitMs = computeBackoffMs(attempt, RETRY);
    if (signal?.aborted === true) throw new FaultError({ code: "cancelled", operation: route.operation });
    const once = requestOptions(route, question, leftMs, { repeat, signal, callId });
    const asked = await askOnce(route, question.payload, timeoutMs, once).catch((error: unknown) => {
      throw orAnswered(error, answered);
    });
    let failure: FaultError;
    if ("payload" in asked) {
      const fault = findReplyFault(asked);
      if (fault === undefined) return asked;
      failure = new FaultError(fault);
      if (fault.code === "limit_exceeded" && isRefusal(asked)) {
        // Wait at least for the hinted time, because the service would refuse an earlier retry too.
        waitMs += fault.retryAfterMs;
        if (performance.now() + waitMs + LAST_ATTEMPT_MS > endMs) throw failure;
      } else if (fault.code !== "unavailable" || repeat === "never") throw orAnswered(failure, answered);
      else answered = failure;
    } else {
      failure = asked;
    }
    leftMs = endMs - performance.now();
    if (leftMs > 0) await pause(Math.min(waitMs, leftMs), signal);
    leftMs = endMs - performance.now();
    if (leftMs < LAST_ATTEMPT_MS) throw failure;
  }
}

/** Prefers an earlier fault of the service to deadline_exceeded, because it explains more. */
function orAnswered(error: unknown, answered: FaultError | undefined): unknown {
  return answered !== undefined && findFault(error)?.code === "deadline_exceeded" ? answered : error;
}

/** Sends the request once. Returns an error instead of a reply if no responder received it, so that the service did nothing. */
async function askOnce(
  route: Route,
  payload: Uint8Array,
  timeoutMs: number,
  options: RequestOptions,
): Promise<Reply | FaultError> {
  const { bus, area, subject, operation } = route;
  try {
    return await bus.request(subject, payload, options);
  } catch (cause) {
    const fault = findFault(cause);
    if (fault?.code === "deadline_exceeded")
      throw new FaultError({ code: "deadline_exceeded", operation, timeoutMs }, { cause });
    if (fault?.code === "cancelled") throw new FaultError({ code: "cancelled", operation }, { cause });
    if (fault?.code !== "unavailable") throw cause;
    return new FaultError({ code: "unavailable", dependency: area, retryAfterMs: ABSENT_RETRY_MS }, { cause });
  }
}

function requestOptions(
  route: Route,
  question: Question,
  timeoutMs: number,
  { repeat, signal, callId }: { repeat: Repeat; signal: AbortSignal | undefined; callId: string | undefined },
): RequestOptions {
  const headers = requestHeaders(route, timeoutMs, callId);
  const options = signal === undefined ? { timeoutMs, headers } : { timeoutMs, headers, signal };
  return repeat === "never" ? options : { ...options, repeat: requestRepeat(route, question, timeoutMs, headers) };
}

function requestRepeat(
  { method, area }: Route,
  question: Question,
  timeoutMs: number,
  headers: Headers,
): RequestRepeat {
  const { waitMs, withoutWait } = question;
  const writeMs =
    timeoutMs > WRITE_SILENCE.maxMs ? Infinity : Math.max(WRITE_SILENCE.minMs, timeoutMs * WRITE_SILENCE.part);
  return {
    service: area,
    silenceMs: (attempt) => (method.isRead ? readSilenceMs(attempt) + (attempt === 1 ? waitMs : 0) : writeMs),
    headers: (leftMs) => new Map([...headers, [header.timeout, String(Math.ceil(leftMs))]]),
    ...(withoutWait && { payload: withoutWait }),
  };
}

function readSilenceMs(attempt: number): number {
  return Math.min(READ_SILENCE.maxMs, READ_SILENCE.firstMs * 2 ** (attempt - 1));
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
