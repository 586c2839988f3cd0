import {
  makeMemoryBus,
  type Bus,
  type Delivery,
  type Endpoint,
  type Message,
  type MemoryWorld,
  type Reply,
} from "@muster/bus";
import { FaultError } from "@muster/faults";
import type { Network } from "./network.ts";
import type { Trace } from "./trace.ts";
import type { Process } from "./task-queue.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { drawFault, type FaultRisks } from "./fault-risks.ts";

type Responder = { readonly process: Process; readonly endpoint: Endpoint };
type Listener = {
  readonly process: Process;
  readonly pattern: string;
  readonly handler: (message: Message) => unknown;
};

/** The state of a NATS server. Its streams and durable consumers are those of the in-memory bus. */
export type BusWorld = {
  readonly time: VirtualTime;
  readonly weather: FaultRisks;
  readonly network: Network;
  readonly trace: Trace;
  readonly memory: MemoryWorld;
  readonly responders: Map<string, Responder[]>;
  readonly listeners: Set<Listener>;
};

const MESSAGE_ID = "Nats-Msg-Id";
const ACK_ATTEMPTS = 3;

/** The connection of one process. Its messages are delayed, and may be lost or duplicated. Ends with `gone`. */
export function makeSimBus(world: BusWorld, process: Process, gone: AbortSignal): Bus {
  const { network, memory } = world;
  const inner = makeMemoryBus({ world: memory });
  return {
    maxPayloadBytes: () => inner.maxPayloadBytes(),
    request: (subject, payload, options) =>
      new Promise((resolve, reject) => {
        const message = { subject, payload, headers: options.headers ?? new Map<string, string>() };
        new PendingRequest({ world, process, message, options, resolve, reject }).start();
      }),
    respond: (_service, endpoints) => Promise.resolve(respond(world, process, endpoints, gone)),
    signal: (subject, payload, headers = new Map<string, string>()) => {
      network.send("nats", `signal ${subject}`, () => {
        notifyListeners(world, { subject, payload, headers });
        const bound = [...memory.streams.values()].some((stream) => stream.binds(subject));
        const messageId = headers.get(MESSAGE_ID) ?? crypto.randomUUID();
        if (bound) void inner.publish(subject, payload, { messageId, headers });
      });
    },
    listen: (subject, handler) => Promise.resolve(listen(world, { process, pattern: subject, handler }, gone)),
    publish: (subject, payload, options) =>
      network.call("nats", `publish ${subject} ${options.messageId}`, async () => {
        const published = await inner.publish(subject, payload, options);
        notifyListeners(world, { subject, payload, headers: options.headers ?? new Map() });
        return published;
      }),
    ensureStream: (config) => inner.ensureStream(config),
    readMessage: (...args) => inner.readMessage(...args),
    removeMessage: (...args) => inner.removeMessage(...args),
    streamState: (...args) => inner.streamState(...args),
    consume: (options, handler) => {
      const signal = options.signal === undefined ? gone : AbortSignal.any([options.signal, gone]);
      // The consumer is part of the server: its timers continue while the process is frozen.
      return world.time.as(undefined, () =>
        inner.consume({ ...options, signal }, (delivery) => {
          world.trace.note("nats", `deliver ${delivery.subject} to ${process.name}, attempt ${delivery.attempt}`);
          return deliverTo(world, process, delivery, handler);
        }),
      );
    },
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
}

type Call = {
  readonly world: BusWorld;
  readonly process: Process;
  readonly message: Message;
  readonly options: Parameters<Bus["request"]>[2];
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: FaultError) => void;
};

/** One request and its repeats, which are sent while it has no answer. The first answer counts. */
class PendingRequest {
  readonly #call: Call;
  #over = false;

  constructor(call: Call) {
    this.#call = call;
  }

  start(): void {
    const { timeoutMs, signal, repeat } = this.#call.options;
    const { subject } = this.#call.message;
    const { time } = this.#call.world;
    const endMs = time.nowMs + timeoutMs;
    setTimeout(
      () => this.#fail(new FaultError({ code: "deadline_exceeded", operation: subject, timeoutMs })),
      timeoutMs,
    );
    signal?.addEventListener("abort", () => this.#fail(new FaultError({ code: "cancelled", operation: subject })), {
      once: true,
    });
    this.#send(this.#call.message);
    if (repeat === undefined) return;
    const { message } = this.#call;
    const listen = (attempt: number): void => {
      setTimeout(() => {
        if (this.#over) return;
        const headers = repeat.headers(endMs - time.nowMs);
        this.#send({ ...message, headers, payload: repeat.payload ?? message.payload });
        listen(attempt + 1);
      }, repeat.silenceMs(attempt));
    };
    listen(1);
  }

  #send(message: Message): void {
    const { network, weather, responders, trace } = this.#call.world;
    const times = drawFault(weather, "delivered twice", weather.risks.twice) ? 2 : 1;
    for (let copy = 0; copy < times; copy += 1) {
      network.send("nats", `request ${message.subject}`, () => {
        const alive = (responders.get(message.subject) ?? []).filter(({ process }) => process.alive);
        const [first, ...rest] = alive;
        if (first === undefined) {
          const fault = { code: "unavailable", dependency: "nats", retryAfterMs: 500 } as const;
          network.deliver(this.#call.process, () => this.#fail(new FaultError(fault)));
          return;
        }
        const { process, endpoint } = weather.random.pick([first, ...rest]);
        network.deliver(process, () => {
          trace.note(process.name, `receives ${message.subject} from ${this.#call.process.name}`);
          void endpoint.handler(message).then((reply) => {
            network.send("nats", `reply ${message.subject}`, () => {
              network.deliver(this.#call.process, () => this.#done(() => this.#call.resolve(reply)));
            });
          });
        });
      });
    }
  }

  #fail(error: FaultError): void {
    this.#done(() => this.#call.reject(error));
  }

  #done(settle: () => void): void {
    if (this.#over) return;
    this.#over = true;
    settle();
  }
}

function respond(
  world: BusWorld,
  process: Process,
  endpoints: readonly Endpoint[],
  gone: AbortSignal,
): AsyncDisposable {
  const added = endpoints.map((endpoint) => ({ process, endpoint }));
  for (const responder of added) {
    const { subject } = responder.endpoint;
    world.responders.set(subject, [...(world.responders.get(subject) ?? []), responder]);
  }
  const leave = (): void => {
    for (const responder of added) {
      const { subject } = responder.endpoint;
      world.responders.set(
        subject,
        (world.responders.get(subject) ?? []).filter((other) => other !== responder),
      );
    }
  };
  gone.addEventListener("abort", leave, { once: true });
  return {
    [Symbol.asyncDispose]: () => {
      leave();
      return Promise.resolve();
    },
  };
}

function listen(world: BusWorld, listener: Listener, gone: AbortSignal): AsyncDisposable {
  world.listeners.add(listener);
  const leave = (): void => void world.listeners.delete(listener);
  gone.addEventListener("abort", leave, { once: true });
  return {
    [Symbol.asyncDispose]: () => {
      leave();
      return Promise.resolve();
    },
  };
}

function notifyListeners({ listeners, weather, network, trace }: BusWorld, message: Message): void {
  for (const { process, pattern, handler } of listeners) {
    if (!matches(pattern, message.subject)) continue;
    if (drawFault(weather, "hint lost", weather.risks.lostHint)) {
      trace.note("nats", `${message.subject} to ${process.name}: lost`);
      continue;
    }
    const times = drawFault(weather, "delivered twice", weather.risks.twice) ? 2 : 1;
    for (let copy = 0; copy < times; copy += 1) network.deliver(process, () => void handler(message));
  }
}

/** `*` stands for one token. */
function matches(pattern: string, subject: string): boolean {
  const parts = pattern.split(".");
  const tokens = subject.split(".");
  return parts.length === tokens.length && parts.every((token, index) => token === "*" || token === tokens[index]);
}

/** Delivers a message of a durable consumer to the process, whose acknowledgements travel over the network. Never resolves when the process dies. */
function deliverTo(
  world: BusWorld,
  process: Process,
  delivery: Delivery,
  handler: (delivery: Delivery) => Promise<void>,
): Promise<void> {
  const { network } = world;
  const send = (verb: string, effect: () => void): void => network.send("nats", `${verb} ${delivery.subject}`, effect);
  const remote: Delivery = {
    ...delivery,
    ack: async () => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          await network.call("nats", `ack ${delivery.subject}`, () => delivery.ack());
          return;
        } catch (error) {
          if (attempt === ACK_ATTEMPTS) throw error;
        }
      }
    },
    working: () => send("working", () => delivery.working()),
    retry: (delayMs) => send("retry", () => delivery.retry(delayMs)),
    giveUp: (reason) => send("give up", () => delivery.giveUp(reason)),
  };
  return new Promise((resolve, reject) => {
    network.deliver(process, () => {
      handler(remote).then(resolve, reject);
    });
  });
}
