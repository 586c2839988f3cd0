import type { NatsConnection } from "@nats-io/nats-core";
import { jetstreamManager } from "@nats-io/jetstream";
import { FaultError } from "@muster/faults";
import { within } from "./backoff.ts";
import type { Bus, Headers, Reply, RequestOptions } from "./bus.ts";
import { consumeOnNats } from "./nats-consume.ts";
import { natsError } from "./nats-fault.ts";
import { fromNatsHeaders, toNatsHeaders } from "./nats-headers.ts";
import { NatsLink } from "./nats-link.ts";
import { discoverOnNats, respondOnNats, type DiscoveredService } from "./nats-services.ts";
import { isPayloadTooLarge, natsStreams, tooLarge } from "./nats-streams.ts";

export type NatsOptions = {
  /** nats://host:port, several separated by commas. */
  readonly url: string;
  /** Shown in the server's connection list: the service's name. */
  readonly name: string;
  readonly token?: string;
  /** Told when the connection is lost and when it is back. */
  readonly onStatus?: (status: "disconnected" | "reconnected", detail: string) => void;
  /** Disposing waits this long for what is in hand, then leaves it. Default 10 s. */
  readonly drainMs?: number;
};

/** A bus on a NATS connection, which libs/store uses too. Disposing drains: what is in hand is finished, what is buffered is sent. */
export type NatsBus = Bus & {
  readonly connection: NatsConnection;
  /** Every replica of every service that answers now. */
  services(): Promise<DiscoveredService[]>;
};

/** Connects, and reconnects for ever with back-off. Rejects with FaultError unavailable when the first connection cannot be made within timeoutMs (default 10 s). */
export async function connectNats(options: NatsOptions & { readonly timeoutMs?: number }): Promise<NatsBus> {
  const { drainMs = 10_000 } = options;
  const link = await NatsLink.open(options);
  const { connection } = link;
  const streams = natsStreams(link);
  const manager = await jetstreamManager(connection, { checkAPI: false });
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
    request: (subject, payload, requestOptions) => request(link, subject, payload, requestOptions),
    respond: async (service, endpoints) => owned(await respondOnNats(link, service, endpoints, drainMs)),
    signal: (subject, payload, headers) => {
      signal(link, subject, payload, headers);
    },
    listen: async (subject, handler) => owned(await listen(link, subject, handler)),
    publish: streams.publish,
    ensureStream: streams.ensure,
    consume: async (consumeOptions, handler) =>
      owned(await consumeOnNats({ link, manager, options: consumeOptions, handler, drainMs })),
    services: () => discoverOnNats(link),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...parts].map((part) => part[Symbol.asyncDispose]()));
      if (connection.isClosed()) return;
      // Draining a connection that is down would wait until it is back.
      if (link.up && !connection.isDraining()) await within(drainMs, connection.drain());
      await connection.close();
    },
  };
}

async function request(link: NatsLink, subject: string, payload: Uint8Array, options: RequestOptions): Promise<Reply> {
  const { headers, signal } = options;
  let { timeoutMs } = options;
  const operation = `request to ${subject}`;
  if (isAborted(signal)) throw new FaultError({ code: "cancelled", operation });
  if (!link.up) {
    const startMs = performance.now();
    const up = await link.whenUp(timeoutMs, signal);
    timeoutMs -= performance.now() - startMs;
    if (isAborted(signal) || link.connection.isClosed()) throw new FaultError({ code: "cancelled", operation });
    if (!up || timeoutMs < 1) throw new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 500 });
  }
  try {
    const withHeaders = headers === undefined ? {} : { headers: toNatsHeaders(headers) };
    const answer = link.connection.request(subject, payload, {
      // The client library takes less than a millisecond for a mistake.
      timeout: Math.max(1, Math.ceil(timeoutMs)),
      ...withHeaders,
    });
    const message = await (signal === undefined ? answer : abortable(answer, signal, operation));
    return { payload: message.data, headers: fromNatsHeaders(message.headers) };
  } catch (error) {
    if (isPayloadTooLarge(error)) throw tooLarge(link, subject, error);
    throw natsError(error, { operation, timeoutMs: options.timeoutMs });
  }
}

/** Read through a function, because it changes while somebody waits. */
function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** The answer, or `cancelled` as soon as the signal is aborted; an answer that comes later is dropped. */
function abortable<Result>(work: Promise<Result>, signal: AbortSignal, operation: string): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      reject(new FaultError({ code: "cancelled", operation }));
    };
    signal.addEventListener("abort", abort, { once: true });
    void work.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", abort);
    });
  });
}

function signal(link: NatsLink, subject: string, payload: Uint8Array, headers: Headers | undefined): void {
  if (!link.up) return;
  try {
    link.connection.publish(subject, payload, headers === undefined ? {} : { headers: toNatsHeaders(headers) });
  } catch (error) {
    throw isPayloadTooLarge(error)
      ? tooLarge(link, subject, error)
      : natsError(error, { operation: `signal to ${subject}` });
  }
}

async function listen(
  link: NatsLink,
  subject: string,
  handler: Parameters<Bus["listen"]>[1],
): Promise<AsyncDisposable> {
  try {
    const subscription = link.connection.subscribe(subject, {
      callback: (error, { subject: sentTo, data: payload, headers }) => {
        if (error === null) handler({ subject: sentTo, payload, headers: fromNatsHeaders(headers) });
      },
    });
    await link.flush();
    return {
      [Symbol.asyncDispose]: async () => {
        if (!subscription.isClosed() && !link.connection.isClosed()) await within(2000, subscription.drain());
      },
    };
  } catch (error) {
    throw natsError(error, { operation: `listening to ${subject}` });
  }
}
