import { FaultError } from "@muster/faults";
import { within } from "@muster/backoff";
import { makeAdmission, makeEndpointAnswers, type ServedService } from "./endpoint-answers.ts";
import type { Bus, ConsumeOptions, Delivery, Endpoint, Headers, Message, Reply, StreamConfig } from "./bus.ts";
import { deliverMessage } from "./delivery.ts";
import { WorkInFlight } from "./work-in-flight.ts";
import { describeSlowListener, openListener } from "./open-listener.ts";
import { checkSize, countExcessiveBytes, buildTooLargeFault } from "./message-size.ts";
import { MemoryStream, type Timers } from "./memory-stream.ts";
import type { RequestRate } from "./request-rates.ts";
import { matchesSubject, isOverlapping } from "./subject-pattern.ts";
import { toFaultReply } from "./wire-headers.ts";

const NO_HEADERS: Headers = new Map<string, string>();
/** The default `max_payload` of a NATS server. */
const MAX_PAYLOAD_BYTES = 1024 * 1024;

const realTimers: Timers = {
  now: Date.now,
  after: (delayMs, run) => {
    const timer = setTimeout(run, delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};

type Responder = { readonly answer: (message: Message, user: string | undefined) => Promise<Reply> };
type Listener = { readonly pattern: string; readonly handler: (message: Message) => void };

/** The state of a NATS server: several buses that share one see each other, and its streams outlive them. */
export class MemoryWorld {
  readonly timers: Timers;
  readonly responders = new Map<string, Responder[]>();
  readonly listeners = new Set<Listener>();
  readonly streams = new Map<string, MemoryStream>();

  constructor(timers: Timers = realTimers) {
    this.timers = timers;
  }
}

type MemoryOptions = {
  /** Default: a separate world. */
  readonly world?: MemoryWorld;
  /** The user of this bus, as in the inbox of a connection. */
  readonly user?: string;
  /** Requests that each user may make of each service on this bus, measured by the clock of the world; default: no limit. */
  readonly requestRate?: RequestRate;
  /** Called when a listener is too slow and loses signals, and when a user exceeds the rate. */
  readonly onStatus?: (status: "slow_consumer" | "refusing", detail: string) => void;
  /** Disposing waits this long for messages in flight, then drops them. Default 10 s. */
  readonly drainMs?: number;
};

/**
 * The in-memory bus: keeps the same promises in one process, for fast tests and simulation. Acknowledgement waits and redeliveries use the timers of the world.
 */
export function makeMemoryBus(options: MemoryOptions = {}): Bus {
  const { world = new MemoryWorld(), drainMs = 10_000, user, requestRate: rate, onStatus } = options;
  const parts = new Set<AsyncDisposable>();
  let closed = false;
  const owned = (dispose: () => Promise<void>): AsyncDisposable => {
    const own: AsyncDisposable = {
      [Symbol.asyncDispose]: async () => {
        if (parts.delete(own)) await dispose();
      },
    };
    parts.add(own);
    return own;
  };
  const common = (service: string): ServedService => ({
    service,
    rate,
    admit: makeAdmission(rate, world.timers.now),
    onRefused: () => undefined,
    onRateLimit: (description) => onStatus?.("refusing", description),
  });
  const open = (operation: string): void => {
    if (closed) throw new FaultError({ code: "cancelled", operation });
  };
  return {
    maxPayloadBytes: () => MAX_PAYLOAD_BYTES,
    request: async (subject, payload, requestOptions) => {
      open(`request to ${subject}`);
      return request(
        world,
        { subject, payload, headers: requestOptions.headers ?? NO_HEADERS },
        { ...requestOptions, user },
      );
    },
    respond: async (service, endpoints) => {
      open(`serving ${service.name}`);
      await Promise.resolve();
      return owned(respond(world, endpoints, drainMs, common(service.name)));
    },
    signal: (subject, payload, headers = NO_HEADERS) => {
      if (closed) return;
      deliverSignal(world, { subject, payload, headers });
    },
    listen: async (subject, handler, listenOptions = {}) => {
      open(`listening to ${subject}`);
      await Promise.resolve();
      const { take, idle } = openListener(subject, handler, listenOptions, (slow) => {
        onStatus?.("slow_consumer", describeSlowListener(slow));
      });
      const listener = { pattern: subject, handler: take };
      world.listeners.add(listener);
      return owned(async () => {
        world.listeners.delete(listener);
        await within(drainMs, idle());
      });
    },
    ...makeStreams(world, open),
    consume: async (consumeOptions, handler) => {
      open(`consuming ${consumeOptions.stream}`);
      await Promise.resolve();
      return owned(consume(world, consumeOptions, handler, drainMs));
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...parts].map((part) => part[Symbol.asyncDispose]()));
      closed = true;
    },
  };
}

type StreamVerbs = Pick<Bus, "publish" | "ensureStream" | "readMessage" | "removeMessage" | "streamState">;

function makeStreams(world: MemoryWorld, open: (operation: string) => void): StreamVerbs {
  return {
    publish: async (subject, payload, publishOptions) => {
      open(`publishing to ${subject}`);
      checkSize(subject, payload, publishOptions.headers, MAX_PAYLOAD_BYTES);
      await Promise.resolve();
      const stream = [...world.streams.values()].find((candidate) => candidate.binds(subject));
      if (stream === undefined) throw new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 500 });
      const message = { subject, payload: payload.slice(), headers: publishOptions.headers ?? NO_HEADERS };
      return stream.append(message, publishOptions);
    },
    ensureStream: async (config) => {
      open(`making sure of stream ${config.name}`);
      await Promise.resolve();
      ensureStream(world, config);
    },
    readMessage: async (name, subject, from) => {
      open(`reading stream ${name}`);
      await Promise.resolve();
      const stream = world.streams.get(name);
      if (stream === undefined) throw new FaultError({ code: "not_found", kind: "stream", id: name });
      return stream.next(subject, from);
    },
    removeMessage: async (name, sequence) => {
      open(`removing message ${sequence} of stream ${name}`);
      await Promise.resolve();
      return world.streams.get(name)?.remove(sequence) ?? false;
    },
    streamState: async (name) => {
      open(`looking at stream ${name}`);
      await Promise.resolve();
      return world.streams.get(name)?.state();
    },
  };
}

/** Delivers asynchronously: a sender never runs the handlers of its listeners. */
function deliverSignal(world: MemoryWorld, { subject, payload, headers }: Message): void {
  checkSize(subject, payload, headers, MAX_PAYLOAD_BYTES);
  const message = { subject, payload: payload.slice(), headers };
  for (const { pattern, handler } of world.listeners)
    if (matchesSubject(pattern, subject))
      queueMicrotask(() => {
        handler(message);
      });
}

function request(
  world: MemoryWorld,
  message: Message,
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal; readonly user: string | undefined },
): Promise<Reply> {
  const { timeoutMs, signal } = options;
  const operation = `request to ${message.subject}`;
  checkSize(message.subject, message.payload, message.headers, MAX_PAYLOAD_BYTES);
  const responders = world.responders.get(message.subject);
  const responder = responders?.shift();
  return new Promise((resolve, reject) => {
    const fail = (error: FaultError): void => {
      done();
      reject(error);
    };
    const abort = (): void => {
      fail(new FaultError({ code: "cancelled", operation }));
    };
    const cancelTimer = world.timers.after(timeoutMs, () => {
      fail(new FaultError({ code: "deadline_exceeded", operation, timeoutMs }));
    });
    const done = (): void => {
      cancelTimer();
      signal?.removeEventListener("abort", abort);
    };
    if (signal?.aborted === true) {
      abort();
    } else if (responders === undefined || responder === undefined) {
      fail(new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 500 }));
    } else {
      // Selects replicas round robin.
      responders.push(responder);
      signal?.addEventListener("abort", abort, { once: true });
      void responder.answer({ ...message, payload: message.payload.slice() }, options.user).then((reply) => {
        done();
        resolve(reply);
      });
    }
  });
}

function respond(
  world: MemoryWorld,
  endpoints: readonly Endpoint[],
  drainMs: number,
  served: ServedService,
): () => Promise<void> {
  const inFlight = new WorkInFlight();
  const added = endpoints.map((endpoint) => {
    const { answer } = makeEndpointAnswers(endpoint, served);
    const responder: Responder = {
      answer: (message, user) => inFlight.run(async () => checkReply(message.subject, await answer(message, user))),
    };
    const responders = world.responders.get(endpoint.subject) ?? [];
    responders.push(responder);
    world.responders.set(endpoint.subject, responders);
    return { responders, responder };
  });
  return async () => {
    for (const { responders, responder } of added) responders.splice(responders.indexOf(responder), 1);
    await within(drainMs, inFlight.idle());
  };
}

function checkReply(subject: string, reply: Reply): Reply {
  const bytes = countExcessiveBytes(reply.payload, reply.headers, MAX_PAYLOAD_BYTES);
  if (bytes === undefined) return { ...reply, payload: reply.payload.slice() };
  return toFaultReply(buildTooLargeFault(`reply to ${subject}`, bytes, MAX_PAYLOAD_BYTES));
}

function ensureStream(world: MemoryWorld, config: StreamConfig): void {
  const existing = world.streams.get(config.name);
  if (existing !== undefined && existing.config.retention !== config.retention)
    throw new FaultError({ code: "invalid_request", field: "retention", reason: "cannot be changed" });
  for (const [name, { config: other }] of world.streams)
    if (name !== config.name && other.subjects.some((a) => config.subjects.some((b) => isOverlapping(a, b))))
      throw new FaultError({ code: "invalid_request", field: "subjects", reason: `overlap with stream ${name}` });
  if (existing === undefined) world.streams.set(config.name, new MemoryStream(config, world.timers));
  else existing.config = config;
}

function consume(
  world: MemoryWorld,
  options: ConsumeOptions,
  handler: (delivery: Delivery) => Promise<void>,
  drainMs: number,
): () => Promise<void> {
  const stream = world.streams.get(options.stream);
  if (stream === undefined) throw new FaultError({ code: "not_found", kind: "stream", id: options.stream });
  const inFlight = new WorkInFlight();
  const consumer = stream.consumer(options);
  const leave = consumer.join({
    hasRoom: () => inFlight.count < options.maxInFlight,
    take: (delivery) => {
      void inFlight
        .run(async () => {
          // Delivers asynchronously: a publisher never runs the handlers of its consumers.
          await Promise.resolve();
          await deliverMessage(delivery, handler, options.onRetry);
        })
        .then(() => {
          consumer.pump();
        });
    },
  });
  options.signal?.addEventListener("abort", leave, { once: true });
  if (options.signal?.aborted === true) leave();
  return async () => {
    options.signal?.removeEventListener("abort", leave);
    leave();
    await within(drainMs, inFlight.idle());
  };
}
