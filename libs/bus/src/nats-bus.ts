import type { NatsConnection } from "@nats-io/nats-core";
import { jetstreamManager } from "@nats-io/jetstream";
import { within } from "@muster/backoff";
import { keepReplicas } from "@muster/jetstream";
import type { Bus, Headers, ListenOptions } from "./bus.ts";
import { openListener } from "./open-listener.ts";
import { checkSize } from "./message-size.ts";
import { consumeMessages } from "./nats-consume.ts";
import type { NatsAccess } from "./nats-access.ts";
import { toNatsError } from "./nats-fault.ts";
import { toHeaders, toNatsHeaders } from "./nats-headers.ts";
import { NatsLink, type BusStatus } from "./nats-link.ts";
import { NatsRequests } from "./nats-requests.ts";
import {
  discoverServices,
  listDroppedSignals,
  respondToRequests,
  type DiscoveredService,
  type DroppedSignals,
} from "./nats-services.ts";
import type { RequestRate } from "./request-rates.ts";
import { makeNatsStreams } from "./nats-streams.ts";

/** Time limit of one request about streams and consumers; the request is repeated. */
const MANAGER_TIMEOUT_MS = 2000;

type NatsOptions = NatsAccess & {
  /** Name in the connection list of the server: the name of the service. */
  readonly name: string;
  /** Prefix of reply inboxes: the only subjects on which a user may receive replies. Default `_INBOX`. */
  readonly inboxPrefix?: string;
  /** Called when the connection is lost or restored, and on problems with its use. */
  readonly onStatus?: (status: BusStatus, detail: string) => void;
  /**
   * Number of replicas of every stream and bucket that is opened over this connection. Existing ones with another number are changed. Default: new ones have
   * one replica, existing ones stay unchanged.
   */
  readonly replicas?: number;
  /** Requests that each user may make of each service on this connection; more are refused. Default: no limit. */
  readonly requestRate?: RequestRate;
  /** Aborted when the owner stops. From then on, the wait for an unreachable server is short. Calls in flight finish while the server is reachable. */
  readonly signal?: AbortSignal;
  /** Disposing waits this long for messages in flight, then drops them. Default 10 s. */
  readonly drainMs?: number;
};

/** A bus on a NATS connection, which libs/store uses too. Disposing drains: messages in flight are finished, and buffered ones are sent. */
export type NatsBus = Bus & {
  readonly connection: NatsConnection;
  /** Discovers every replica of every service that answers. */
  services(): Promise<DiscoveredService[]>;
  /** Returns the signals that slow listeners of each answering service lost; empty if none was lost. */
  droppedSignals(): Promise<DroppedSignals[]>;
};

/** Connects, and reconnects indefinitely with back-off. Rejects with FaultError unavailable if the first connection fails within timeoutMs (default 10 s). */
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
  const streams = makeNatsStreams(link);
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
    respond: async (service, endpoints) => owned(await respondToRequests(link, service, endpoints, serving)),
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
      owned(await consumeMessages({ link, manager, options: consumeOptions, handler, drainMs })),
    services: () => discoverServices(link),
    droppedSignals: () => listDroppedSignals(link),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...parts].map((part) => part[Symbol.asyncDispose]()));
      options.signal?.removeEventListener("abort", leave);
      if (connection.isClosed()) return;
      // Draining a lost connection would wait until it is restored.
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
    throw toNatsError(error, { operation: `signal to ${subject}` });
  }
}

async function listen(
  link: NatsLink,
  subject: string,
  handler: Parameters<Bus["listen"]>[1],
  options: ListenOptions,
): Promise<AsyncDisposable> {
  const { take, idle } = openListener(subject, handler, options, (slow) => {
    link.slow(slow);
  });
  try {
    const subscription = link.connection.subscribe(subject, {
      callback: (error, { subject: sentTo, data: payload, headers }) => {
        if (error === null) take({ subject: sentTo, payload, headers: toHeaders(headers) });
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
    throw toNatsError(error, { operation: `listening to ${subject}` });
  }
}
