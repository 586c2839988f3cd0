import type { NatsConnection } from "@nats-io/nats-core";
import { jetstreamManager } from "@nats-io/jetstream";
import { within } from "@muster/backoff";
import { keepReplicas } from "@muster/jetstream";
import type { Bus, Headers, ListenOptions } from "./bus.ts";
import { listening } from "./listening.ts";
import { checkSize } from "./message-size.ts";
import { consumeOnNats } from "./nats-consume.ts";
import type { NatsAccess } from "./nats-access.ts";
import { natsError } from "./nats-fault.ts";
import { fromNatsHeaders, toNatsHeaders } from "./nats-headers.ts";
import { NatsLink, type BusStatus } from "./nats-link.ts";
import { NatsRequests } from "./nats-requests.ts";
import {
  discoverOnNats,
  droppedOnNats,
  respondOnNats,
  type DiscoveredService,
  type DroppedSignals,
} from "./nats-services.ts";
import type { RequestRate } from "./request-rates.ts";
import { natsStreams } from "./nats-streams.ts";

/** For one request about streams and consumers; it is repeated. */
const MANAGER_TIMEOUT_MS = 2000;

type NatsOptions = NatsAccess & {
  /** Shown in the server's connection list: the service's name. */
  readonly name: string;
  /** Answers arrive below it: the one subject that a user of its own may listen to for them. Default `_INBOX`. */
  readonly inboxPrefix?: string;
  /** Called when the connection is lost or back, and on trouble with its use. */
  readonly onStatus?: (status: BusStatus, detail: string) => void;
  /**
   * Of every stream and bucket that is opened over this connection; one that has another number is changed. Absent: new ones have one, others are left as
   * they are.
   */
  readonly replicas?: number;
  /** How many requests each user may make of each service that is served over this connection; more are refused. Absent: any number. */
  readonly requestRate?: RequestRate;
  /** Aborted when the owner stops: a server that is away then gets little more time. Calls in flight finish while the server is up. */
  readonly signal?: AbortSignal;
  /** Disposing waits this long for messages in flight, then drops them. Default 10 s. */
  readonly drainMs?: number;
};

/** A bus on a NATS connection, which libs/store uses too. Disposing drains: messages in flight are finished, and buffered ones are sent. */
export type NatsBus = Bus & {
  readonly connection: NatsConnection;
  /** Every replica of every service that answers now. */
  services(): Promise<DiscoveredService[]>;
  /** The signals that listeners of each answering service were too slow for; empty when they keep up. */
  droppedSignals(): Promise<DroppedSignals[]>;
};

/**
 * Connects, and reconnects for ever with back-off. Rejects with FaultError unavailable when the first connection cannot be made within timeoutMs (default 10
 * s).
 */
export async function connectNats(options: NatsOptions & { readonly timeoutMs?: number }): Promise<NatsBus> {
  const { drainMs = 10_000, requestRate: rate } = options;
  const serving = { drainMs, rate };
  const link = await NatsLink.open(options);
  const { connection } = link;
  const leave = (): void => link.leave();
  options.signal?.addEventListener("abort", leave, { once: true });
  if (options.signal?.aborted === true) leave();
  if (options.replicas !== undefined) keepReplicas(connection, options.replicas);
  const requests = new NatsRequests(link);
  const streams = natsStreams(link);
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: MANAGER_TIMEOUT_MS });
  const parts = new Set<AsyncDisposable>();
  const owned = (part: AsyncDisposable): AsyncDisposable => {
    const own: AsyncDisposable = {
      [Symbol.asyncDispose]: async () => {
        if (parts.delete(own)) await part[Symbol.asyncDispose]();
      },
    };
    parts.add(own);
    return own;
  };
  return {
    connection,
    maxPayloadBytes: () => link.maxPayload,
    request: (subject, payload, requestOptions) => requests.request(subject, payload, requestOptions),
    respond: async (service, endpoints) => owned(await respondOnNats(link, service, endpoints, serving)),
    signal: (subject, payload, headers) => {
      signal(link, subject, payload, headers);
    },
    listen: async (subject, handler, listenOptions = {}) => owned(await listen(link, subject, handler, listenOptions)),
    publish: streams.publish,
    ensureStream: streams.ensure,
    readMessage: streams.read,
    removeMessage: streams.remove,
    streamState: streams.state,
    consume: async (consumeOptions, handler) =>
      owned(await consumeOnNats({ link, manager, options: consumeOptions, handler, drainMs })),
    services: () => discoverOnNats(link),
    droppedSignals: () => droppedOnNats(link),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...parts].map((part) => part[Symbol.asyncDispose]()));
      options.signal?.removeEventListener("abort", leave);
      if (connection.isClosed()) return;
      // Draining a connection that is down would wait until it is back.
      if (link.up && !connection.isDraining()) await link.within(drainMs, connection.drain());
      await connection.close();
    },
  };
}

function signal(link: NatsLink, subject: string, payload: Uint8Array, headers: Headers | undefined): void {
  checkSize(subject, payload, headers, link.maxPayload);
  if (!link.up) return;
  try {
    link.connection.publish(subject, payload, headers === undefined ? {} : { headers: toNatsHeaders(headers) });
  } catch (error) {
    throw natsError(error, { operation: `signal to ${subject}` });
  }
}

async function listen(
  link: NatsLink,
  subject: string,
  handler: Parameters<Bus["listen"]>[1],
  options: ListenOptions,
): Promise<AsyncDisposable> {
  const { take, idle } = listening(subject, handler, options, (slow) => {
    link.slow(slow);
  });
  try {
    const subscription = link.connection.subscribe(subject, {
      callback: (error, { subject: sentTo, data: payload, headers }) => {
        if (error === null) take({ subject: sentTo, payload, headers: fromNatsHeaders(headers) });
      },
    });
    await link.flush();
    return {
      [Symbol.asyncDispose]: async () => {
        if (!subscription.isClosed() && !link.connection.isClosed()) await link.within(2000, subscription.drain());
        await within(2000, idle());
      },
    };
  } catch (error) {
    throw natsError(error, { operation: `listening to ${subject}` });
  }
}
