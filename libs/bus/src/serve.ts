import { SpanKind } from "@opentelemetry/api";
import { FaultError, findFault, type Fault } from "@muster/faults";
import {
  subjects,
  type MessageOf,
  type MethodDescriptor,
  type PropertiesOf,
  type ServiceDescriptor,
} from "@muster/proto";
import { extractTrace, inSpan } from "@muster/tracing";
import { within } from "@muster/backoff";
import { buildBusyFault } from "./endpoint-answers.ts";
import type { Bus, Endpoint, Message, Reply } from "./bus.ts";
import { CallInFlight } from "./call.ts";
import { DEFAULT_TIMEOUT_MS } from "./client.ts";
import { checkRequestId } from "./request-id.ts";
import { encodeMessage, copyDefaults, tryDecode, getTypeName } from "./messages.ts";
import { header, toReply, toFaultReply, toRefusalReply, parseTimeout } from "./wire-headers.ts";

export type CallContext = {
  /** Aborted at the caller's deadline, when the caller cancels, and when the service stops. */
  readonly signal: AbortSignal;
  /** Unix milliseconds at which the caller stops waiting. */
  readonly deadlineMs: number;
  /** Bytes that the messages of one page may have: half of the server's limit, so that the rest of the reply fits too. */
  readonly pageBytes: number;
};

/**
 * One function per method. It answers, or throws a FaultError, which the caller receives unchanged. Any other error is a defect: it is logged, and the caller
 * receives internal.
 */
export type Handlers<Service extends ServiceDescriptor> = {
  readonly [Name in keyof Service["methods"]]: Handler<Service["methods"][Name]>;
};

type Handler<Method extends MethodDescriptor> = (
  request: MessageOf<Method["request"]>,
  context: CallContext,
) => Promise<PropertiesOf<Method["reply"]>>;

export type ServeOptions<Service extends ServiceDescriptor = ServiceDescriptor> = {
  readonly version: string;
  readonly description: string;
  /** Maximum requests in flight per method. Default 256. */
  readonly concurrency?: number;
  /** Methods that services call for each work item; the rate of a user does not limit services there. Default none. */
  readonly hotMethods?: readonly (keyof Service["methods"])[];
  /** Milliseconds that requests in flight may continue after disposal, before their signals are aborted. Default 2000. */
  readonly graceMs?: number;
  /** Called on defects, not on faults, which are the responsibility of the caller. */
  readonly onDefect?: (method: string, error: unknown) => void;
};

/** A handler without static types: the descriptor has them, but the compiler cannot express them here. */
type AnyHandler = (request: unknown, context: CallContext) => Promise<object>;

/** Retry hint of a request that a stopping service ended: another replica, or the next process, answers soon. */
const STOPPING_RETRY_MS = 500;

/** Serves all methods of a service until disposed. Disposal refuses new requests, and lets those in flight finish for graceMs. */
export async function serveMethods<Service extends ServiceDescriptor>(
  bus: Bus,
  service: Service,
  handlers: Handlers<Service>,
  options: ServeOptions<Service>,
): Promise<AsyncDisposable> {
  const { version, description, concurrency = 256, hotMethods = [], graceMs = 2000, onDefect } = options;
  const { area } = service;
  const hot = new Set<PropertyKey>(hotMethods);
  const inFlight = new Set<CallInFlight>();
  const cancellable = new Map<string, CallInFlight>();
  const endpoints = Object.entries(service.methods).map(([name, method]): Endpoint => {
    // The handlers have the keys of the descriptor; the mapped type does not survive Object.entries.
    const handler = handlers[name] as AnyHandler;
    const work: Work = { bus, service, method, handler, concurrency, onDefect, inFlight, cancellable, running: 0 };
    const subject = subjects.request(area, method.verb);
    return { name: method.verb, subject, concurrency, hot: hot.has(name), handler: answerer(work, subject) };
  });
  const cancels = await bus.listen(subjects.cancel(area), (message) => {
    const call = cancellable.get(message.headers.get(header.callId) ?? "");
    call?.end({ code: "cancelled", operation: area });
  });
  const identity = { name: area, version, description, metadata: { service: service.name } };
  const responder = await bus.respond(identity, endpoints);
  return {
    [Symbol.asyncDispose]: async () => {
      const drained = responder[Symbol.asyncDispose]();
      if (!(await within(graceMs, drained)))
        for (const call of inFlight)
          call.end({ code: "unavailable", dependency: area, retryAfterMs: STOPPING_RETRY_MS });
      await drained;
      await cancels[Symbol.asyncDispose]();
    },
  };
}

/** One served method. */
type Work = {
  readonly bus: Pick<Bus, "maxPayloadBytes">;
  readonly service: ServiceDescriptor;
  readonly method: MethodDescriptor;
  readonly handler: AnyHandler;
  readonly concurrency: number;
  readonly onDefect: ServeOptions["onDefect"];
  readonly inFlight: Set<CallInFlight>;
  readonly cancellable: Map<string, CallInFlight>;
  /** Handlers that have not returned, whether their request was answered or not. */
  running: number;
};

function answerer(work: Work, subject: string): (message: Message) => Promise<Reply> {
  const { service, method } = work;
  const spanName = `process ${subject}`;
  const span = {
    kind: SpanKind.SERVER,
    attributes: {
      "messaging.system": "nats",
      "messaging.operation.type": "process",
      "messaging.destination.template": subject,
      "rpc.service": service.name,
      "rpc.method": method.name,
    },
  };
  return async (message) => {
    try {
      const parent = extractTrace(message.headers);
      return await inSpan("@muster/bus", spanName, { ...span, parent }, () => answer(work, message));
    } catch (error) {
      return toFaultReply(findFault(error) ?? defect(work, error));
    }
  };
}

async function answer(work: Work, message: Message): Promise<Reply> {
  const { service, method, concurrency } = work;
  const operation = `${service.area}.${method.verb}`;
  // Also counts handlers that outlive their deadline, so that handlers that ignore the signal cannot accumulate without limit.
  if (work.running >= concurrency) return toRefusalReply(buildBusyFault(operation, concurrency));
  const request: unknown = tryDecode(method.request, message.payload);
  if (typeof request !== "object" || request === null)
    throw new FaultError({
      code: "invalid_request",
      field: "payload",
      reason: `is not a ${getTypeName(method.request)}`,
    });
  copyDefaults(request);
  checkRequestId(request);
  const pageBytes = Math.floor(work.bus.maxPayloadBytes() / 2);
  const call = new CallInFlight(operation, parseTimeout(message.headers, DEFAULT_TIMEOUT_MS), pageBytes);
  const callId = message.headers.get(header.callId);
  work.inFlight.add(call);
  if (callId !== undefined) work.cancellable.set(callId, call);
  try {
    return toReply(encodeMessage(method.reply, await handle(work, request, call)));
  } finally {
    call.finish();
    work.inFlight.delete(call);
    if (callId !== undefined) work.cancellable.delete(callId);
  }
}

/** The reply of the handler, or the fault that ended the call before the handler returned. */
function handle(work: Work, request: unknown, call: CallInFlight): Promise<object> {
  return new Promise((resolve, reject) => {
    call.onEnd = (fault) => {
      reject(new FaultError(fault));
    };
    work.running += 1;
    const failed = (error: unknown): void => {
      work.running -= 1;
      if (!call.ended) reject(asError(error));
      else if (findFault(error) === undefined && !isAbort(error)) defect(work, error);
    };
    try {
      // No more promises than needed here: they are a large part of the cost of a request.
      work.handler(request, call).then((reply) => {
        work.running -= 1;
        resolve(reply);
      }, failed);
    } catch (error) {
      // A handler that throws before its first await must fail like a handler that rejects.
      failed(error);
    }
  });
}

function defect(work: Work, error: unknown): Fault {
  work.onDefect?.(work.method.name, error);
  return { code: "internal", operation: `${work.service.area}.${work.method.verb}` };
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
