import { AckPolicy, DeliverPolicy, type JetStreamManager } from "@nats-io/jetstream";
import { nanos, type Msg } from "@nats-io/nats-core";
import { FaultError } from "@muster/faults";
import { makeInbox } from "@muster/jetstream";
import { computeBackoffMs, pause, within } from "@muster/backoff";
import type { ConsumerState } from "./bus-metrics.ts";
import type { ConsumeOptions, Delivery } from "./bus.ts";
import { deliverMessage, makeDelivery } from "./delivery.ts";
import { WorkInFlight } from "./work-in-flight.ts";
import { findApiCode, JS_ERROR, toNatsError } from "./nats-fault.ts";
import { toHeaders } from "./nats-headers.ts";
import type { NatsLink } from "./nats-link.ts";
import { retryWhileUnreachable } from "./retry-while-unreachable.ts";
import { getHeaderText } from "./wire-headers.ts";

/** Lifetime and heartbeat interval of a pull request on the server. */
const PULL = { expiresMs: 30_000, heartbeatMs: 5000, maxBatch: 256 };
/** Maximum unacknowledged messages in all replicas together, including messages that wait for a retry. The server keeps about 100 bytes for each. */
const MAX_PENDING = 200_000;
const RESTART = { firstMs: 50, maxMs: 2000 };
/** A session that lasted this long was healthy: the next failure restarts the back-off. */
const HEALTHY_MS = 10_000;
const START_PATIENCE_MS = 15_000;
const ACK_ATTEMPT_MS = 2000;
/** Time limit for the server to confirm an acknowledgement; after it, the handler counts as failed. */
const ACK_PATIENCE_MS = 10_000;

type Consuming = {
  readonly link: NatsLink;
  readonly manager: JetStreamManager;
  readonly options: ConsumeOptions;
  readonly handler: (delivery: Delivery) => Promise<void>;
  readonly drainMs: number;
};

/** The messages of this consumption in flight, across all sessions of pulling. `freed` belongs to the present session. */
type ConsumeSlots = { readonly inFlight: WorkInFlight; freed: () => void };

/**
 * Consumes until disposed. Survives lost connections and server restarts, and recreates a deleted consumer. Only the first attempt may fail, so that a missing
 * stream is reported at start.
 */
export async function consumeMessages(consuming: Consuming): Promise<AsyncDisposable> {
  const { link, options, drainMs } = consuming;
  const inFlight = new WorkInFlight();
  const slots: ConsumeSlots = { inFlight, freed: () => undefined };
  const stop = new AbortController();
  // No server answers while the cluster elects the leader of the stream.
  await retryWhileUnreachable(link, `consuming ${options.stream}`, () => ensureConsumer(consuming), START_PATIENCE_MS);
  const done = keepPulling(consuming, slots, stop.signal);
  const forget = link.metrics.observe(options.stream, options.durable, () => readState(consuming));
  const end = (): void => {
    stop.abort();
  };
  options.signal?.addEventListener("abort", end, { once: true });
  if (options.signal?.aborted === true) end();
  return {
    [Symbol.asyncDispose]: async () => {
      options.signal?.removeEventListener("abort", end);
      forget();
      end();
      await within(drainMs, done);
      await within(drainMs, inFlight.idle());
      await link.within(drainMs, link.flush());
    },
  };
}

/** State of the consumer on the server; undefined while no server answers. */
async function readState({ link, manager, options }: Consuming): Promise<ConsumerState | undefined> {
  if (!link.up) return undefined;
  try {
    const info = await manager.consumers.info(options.stream, options.durable);
    return { waiting: info.num_pending, unacknowledged: info.num_ack_pending, redelivered: info.num_redelivered };
  } catch {
    // The consumer is being recreated or the server is unreachable; the next scrape shows it.
    return undefined;
  }
}

async function keepPulling(consuming: Consuming, slots: ConsumeSlots, stop: AbortSignal): Promise<void> {
  let failures = 0;
  for (let first = true; !stop.aborted; first = false) {
    const startMs = performance.now();
    try {
      if (!first) await ensureConsumer(consuming);
      await pullUntilBroken(consuming, slots, stop);
    } catch {
      // The stream is missing or the server is unreachable. The loop below retries without limit, because consumers outlive their streams.
    }
    failures = performance.now() - startMs > HEALTHY_MS ? 1 : failures + 1;
    await pause(computeBackoffMs(failures, RESTART), stop);
    await consuming.link.whenUp(Number.MAX_SAFE_INTEGER, stop);
  }
}

/** Creates the consumer or updates its configuration. Safe from concurrent replicas. */
async function ensureConsumer({ manager, options }: Consuming): Promise<void> {
  const { stream, durable, subject, ackWaitMs } = options;
  const changeable = {
    filter_subject: subject,
    ack_wait: nanos(ackWaitMs),
    // The batch size limits the messages in flight. The server also counts messages that wait for a retry, which must not block the others.
    max_ack_pending: MAX_PENDING,
    max_deliver: -1,
  };
  try {
    const fixed = { durable_name: durable, ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.All };
    await manager.consumers.add(stream, { ...fixed, ...changeable });
  } catch (error) {
    const operation = `consuming ${stream} as ${durable}`;
    if (findApiCode(error) !== JS_ERROR.consumerExists) throw toNatsError(error, { operation });
    try {
      await manager.consumers.update(stream, durable, changeable);
    } catch (cause) {
      throw toNatsError(cause, { operation });
    }
  }
}

/**
 * Pulls as many messages as slots are free, one request at a time, until only a new session helps. Sends the next request once the previous one has ended and a
 * slot is free.
 */
async function pullUntilBroken(consuming: Consuming, slots: ConsumeSlots, stop: AbortSignal): Promise<void> {
  const { link, options } = consuming;
  const { connection } = link;
  const next = `$JS.API.CONSUMER.MSG.NEXT.${options.stream}.${options.durable}`;
  const inbox = makeInbox(connection);
  const broken = Promise.withResolvers<undefined>();
  const end = (): void => {
    broken.resolve(undefined);
  };
  /** Messages that the pending pull request may still deliver. */
  let expected = 0;
  let heardMs = performance.now();
  const pull = (): void => {
    const batch = Math.min(options.maxInFlight - slots.inFlight.count, PULL.maxBatch);
    if (expected > 0 || batch <= 0 || stop.aborted || !link.up) return;
    expected = batch;
    heardMs = performance.now();
    const body = { batch, expires: nanos(PULL.expiresMs), idle_heartbeat: nanos(PULL.heartbeatMs) };
    connection.publish(next, JSON.stringify(body), { reply: inbox });
  };
  const subscription = connection.subscribe(inbox, {
    callback: (error, message) => {
      heardMs = performance.now();
      if (error !== null) end();
      else if (isMessage(message)) {
        expected -= 1;
        if (stop.aborted) message.respond("-NAK");
        else void take(consuming, slots, message);
        pull();
      } else {
        const verdict = judgeStatus(message.headers?.code ?? 0);
        if (verdict === "pull-again") {
          expected = 0;
          pull();
        }
        if (verdict === "broken") end();
      }
    },
  });
  // The server sends heartbeats and ends each request in time: silence means that it has lost the request.
  const watch = setInterval(() => {
    if (link.up && expected > 0 && performance.now() - heardMs > 2.5 * PULL.heartbeatMs) end();
  }, PULL.heartbeatMs);
  const forget = link.onReconnect(end);
  stop.addEventListener("abort", end, { once: true });
  slots.freed = pull;
  try {
    pull();
    await broken.promise;
  } finally {
    slots.freed = () => undefined;
    clearInterval(watch);
    forget();
    stop.removeEventListener("abort", end);
    // Messages in flight arrive while the subscription drains: they are handled or, when stopping, returned.
    if (!connection.isClosed()) await link.within(ACK_ATTEMPT_MS, subscription.drain());
  }
}

function isMessage(message: Msg): boolean {
  return message.reply?.startsWith("$JS.ACK.") === true;
}

/** 100: heartbeat. 404 and 408: the request has ended, send the next. Otherwise (409 deleted or moved, 503 no responder) check the consumer first. */
function judgeStatus(code: number): "fine" | "pull-again" | "broken" {
  if (code === 100) return "fine";
  return code === 404 || code === 408 ? "pull-again" : "broken";
}

async function take(consuming: Consuming, slots: ConsumeSlots, message: Msg): Promise<void> {
  const { handler, options } = consuming;
  const delivery = toDelivery(consuming, message);
  await slots.inFlight.run(() => deliverMessage(delivery, handler, options.onRetry));
  slots.freed();
}

function toDelivery({ link, options }: Consuming, message: Msg): Delivery {
  const { subject, data: payload, headers, reply = "" } = message;
  const { sequence, attempt } = parseReply(reply);
  const sendAck = (verb: string): void => {
    const say = (): void => {
      link.connection.publish(reply, verb);
    };
    // If this reply is not sent in time, the server redelivers the message.
    if (link.up) say();
    else
      void link.whenUp(options.ackWaitMs).then((up) => {
        if (up) say();
      });
  };
  return makeDelivery({ subject, payload, headers: toHeaders(headers) }, sequence, attempt, {
    ack: () => confirmAck(link, reply, subject),
    working: () => {
      sendAck("+WPI");
    },
    retry: (delayMs) => {
      sendAck(`-NAK ${JSON.stringify({ delay: nanos(Math.max(0, Math.round(delayMs))) })}`);
    },
    giveUp: (reason) => {
      sendAck(`+TERM ${getHeaderText(reason).slice(0, 256)}`);
    },
  });
}

/** Acknowledges and waits for the confirmation of the server; retries after a lost connection, which is idempotent. */
async function confirmAck(link: NatsLink, reply: string, subject: string): Promise<void> {
  const endMs = performance.now() + ACK_PATIENCE_MS;
  let cause: unknown;
  for (let attempt = 1; performance.now() < endMs; attempt += 1) {
    if (!(await link.whenUp(endMs - performance.now()))) break;
    try {
      const timeout = Math.max(1, Math.min(ACK_ATTEMPT_MS, endMs - performance.now()));
      await link.connection.request(reply, "+ACK", { timeout });
      return;
    } catch (error) {
      cause = error;
      await pause(computeBackoffMs(attempt, RESTART));
    }
  }
  throw new FaultError(
    { code: "unavailable", dependency: "nats", retryAfterMs: RESTART.maxMs },
    { cause, doing: `acknowledging a message of ${subject}` },
  );
}

/** Parses $JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<attempt>.<stream sequence>.<consumer sequence>.<time>.<pending>[.<random>]. */
function parseReply(reply: string): { sequence: number; attempt: number } {
  const tokens = reply.split(".");
  const attemptAt = tokens.length === 9 ? 4 : 6;
  return { attempt: Number(tokens[attemptAt]), sequence: Number(tokens[attemptAt + 1]) };
}
