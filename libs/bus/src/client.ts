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
import { backoffMs, pause } from "@muster/backoff";
import type { Bus, Headers, Reply, RequestOptions, RequestRepeat } from "./bus.ts";
import { encodeMessage, tryDecode, typeName } from "./messages.ts";
import { faultOfReply, header, isRefusal } from "./wire-headers.ts";

export type CallOptions = {
  /** Time for the whole call, retries included. Default 5000. Crosses the wire and ends the work there too. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** For this call; default: that of the client. */
  readonly repeat?: Repeat;
};

/**
 * Whether a call may be made more than once. `safely` (the default: every request of Muster reads, or carries an id by which its service knows it again):
 * also after the service has answered unavailable, while the replica that received it is silent, and after the connection was lost with it under way.
 * `never`: only while no replica exists to receive it, and after the service has refused it unread.
 */
type Repeat = "safely" | "never";

/** A service as its callers see it: one function a method, typed by the generated code. Each rejects with FaultError and nothing else. */
export type Client<Service extends ServiceDescriptor> = {
  readonly [Name in keyof Service["methods"]]: Call<Service["methods"][Name]>;
};

type Call<Method extends MethodDescriptor> = (
  request: PropertiesOf<Method["request"]>,
  options?: CallOptions,
) => Promise<MessageOf<Method["reply"]>>;

export const DEFAULT_TIMEOUT_MS = 5000;

/** Between two attempts without a responder. */
const RETRY = { firstMs: 20, maxMs: 500 };
/** How long a read may have no answer before another replica gets it, too: doubles with each attempt. */
const READ_SILENCE = { firstMs: 500, maxMs: 2000 };
/** The same for a write, as a fraction of its time: a second replica is fenced, and costs more. A call with a longer limit than `maxMs` is long, not slow. */
const WRITE_SILENCE = { part: 1 / 3, minMs: 500, maxMs: 30_000 };
/** With less than this left there is no retry: an attempt that runs out of time can no longer prove that nothing was done. */
const LAST_ATTEMPT_MS = 50;
/** Hint for callers that found no responder within their deadline. */
const ABSENT_RETRY_MS = 1000;

/**
 * Calls a service. Hides a restart, a change of leader and the death of a replica from callers with enough time: the call is retried, with back-off, until the
 * deadline and never beyond it. A request that was refused unread is retried, too, after the service's hint.
 */
export function client<Service extends ServiceDescriptor>(
  bus: Bus,
  service: Service,
  options: { readonly repeat?: Repeat } = {},
): Client<Service> {
  const { repeat = "safely" } = options;
  const calls = Object.entries(service.methods).map(([name, method]) => {
    const decode = (payload: Uint8Array): unknown => tryDecode(method.reply, payload);
    return [name, callOf(bus, service, method, { repeat, decode })];
  });
  // The entries have the keys of the descriptor, which Object.fromEntries cannot express.
  return Object.fromEntries(calls) as Client<Service>;
}

/** A service whose replies stay encoded, by the names of its methods: for callers that compare replies before they decode them. */
export type ByteClient = Readonly<Record<string, (request: object, options?: CallOptions) => Promise<Uint8Array>>>;

/** Calls a service as `client` does. */
export function byteClient(bus: Bus, service: ServiceDescriptor): ByteClient {
  const calls = Object.entries(service.methods).map(([name, method]) => {
    const decode = (payload: Uint8Array): Uint8Array => payload;
    return [name, callOf(bus, service, method, { repeat: "safely", decode })];
  });
  return Object.fromEntries(calls) as ByteClient;
}

/** The part that is the same in every call of one method, made once. */
type Route = {
  readonly bus: Bus;
  readonly area: string;
  readonly subject: string;
  readonly operation: string;
  readonly method: MethodDescriptor;
  readonly type: string;
  readonly repeat: Repeat;
};

/** A call whose types the descriptor has and the compiler has lost. */
type AnyCall = (request: object, options?: CallOptions) => Promise<unknown>;

/** `decode` returns undefined for bytes that are no reply. */
function callOf(
  bus: Bus,
  service: ServiceDescriptor,
  method: MethodDescriptor,
  { repeat, decode }: { readonly repeat: Repeat; readonly decode: (payload: Uint8Array) => unknown },
): AnyCall {
  const { area } = service;
  const subject = subjects.request(area, method.verb);
  const operation = `${area}.${method.verb}`;
  const route: Route = { bus, area, subject, operation, method, type: typeName(method.request), repeat };
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

/** A request as it is sent. */
type Question = {
  readonly payload: Uint8Array;
  /** How long a long poll lets its service hold the answer (`wait_ms`), and the request for what there is when that time is over. */
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
    const reason = `is not a ${typeName(method.request)}`;
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
    let waitMs = backoffMs(attempt, RETRY);
    if (signal?.aborted === true) throw new FaultError({ code: "cancelled", operation: route.operation });
    const once = requestOptions(route, question, leftMs, { repeat, signal, callId });
    const asked = await askOnce(route, question.payload, timeoutMs, once).catch((error: unknown) => {
      throw orAnswered(error, answered);
    });
    let failure: FaultError;
    if ("payload" in asked) {
      const fault = faultOfReply(asked);
      if (fault === undefined) return asked;
      failure = new FaultError(fault);
      if (fault.code === "limit_exceeded" && isRefusal(asked)) {
        // Not earlier than the hint, however much time is left: the retry would be refused again, and cost the service as much.
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

/** An earlier fault of the service explains more than the passed deadline. */
function orAnswered(error: unknown, answered: FaultError | undefined): unknown {
  return answered !== undefined && faultOf(error)?.code === "deadline_exceeded" ? answered : error;
}

/** The reply, or the error of a request without a responder, so that nothing has been done. */
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
    const fault = faultOf(cause);
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
