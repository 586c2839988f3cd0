import {
  AckPolicy,
  DeliverPolicy,
  jetstreamManager,
  JsHeaders,
  ReplayPolicy,
  type JetStreamManager,
} from "@nats-io/jetstream";
import { Empty, nanos, nuid, type Msg, type MsgHdrs, type NatsConnection } from "@nats-io/nats-core";
import { makeInbox } from "@muster/jetstream";
import { requestOnce, onConnectionEvent } from "./connection-events.ts";
import { toFault, buildUnavailableError } from "./jetstream-fault.ts";
import { openMailbox } from "./mailbox.ts";

export type StreamMessage = {
  readonly kind: "message";
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: MsgHdrs | undefined;
  readonly sequence: number;
};

type OrderedOptions = {
  readonly stream: string;
  readonly subject: string;
  /** The last message of each subject and later ones, or everything from this sequence on. */
  readonly from: "last-of-each-subject" | number;
  readonly signal: AbortSignal;
  /** Reads from the leader of the stream, which has every acknowledged write; another server may be behind. */
  readonly atLeader?: boolean;
  /** Time limit of the request that begins the pass; default 5000. */
  readonly timeoutMs?: number;
  /** Called each time the server confirms that no message was missed. */
  readonly onAlive?: () => void;
};

/** Maximum interval between two messages or heartbeats of the server. */
const HEARTBEAT_MS = 2000;
/** A server that is silent for this long counts as lost. */
export const SILENCE_MS = 3 * HEARTBEAT_MS;
/** The server deletes a consumer whose reader was inactive for this long. */
const INACTIVE_MS = 30_000;
const REQUEST_TIMEOUT_MS = 5000;
/**
 * Maximum attempts to get a consumer on the leader, because NATS places consumers at random: with three servers, all attempts fail in one of thousands of
 * cases.
 */
const MAX_DRAWS = 20;
/** The status of messages from the server: heartbeat or flow control. */
const CONTROL = 100;

/**
 * Makes one pass over a stream in order: yields messages and, for the last of each subject, `caught-up` once every subject that existed at the start has been
 * read. Runs until the signal. Rejects with FaultError unavailable as soon as a message may have been missed (a gap, a lost connection, silence).
 */
export async function* consumeInOrder(
  connection: NatsConnection,
  options: OrderedOptions,
): AsyncGenerator<StreamMessage | { readonly kind: "caught-up" }, undefined> {
  const { stream, signal, timeoutMs = REQUEST_TIMEOUT_MS } = options;
  const doing = `following ${stream}`;
  const mailbox = openMailbox<Msg>();
  const fail = (why: string): void => mailbox.fail(buildUnavailableError(`${doing}: ${why}`));
  const silence = setTimeout(() => fail("the server is silent"), SILENCE_MS);
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: timeoutMs });
  const hear: Hear = (error, message) => {
    if (error !== null) {
      mailbox.fail(toFault(error, doing));
      return;
    }
    silence.refresh();
    mailbox.put(message);
  };
  const stopListening = onConnectionEvent(connection, (event) => {
    if (event !== "reconnect") fail("the connection was lost");
  });
  const stop = (): void => mailbox.fail(undefined);
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  let consumer: Consumer | undefined;
  try {
    const there =
      options.from === "last-of-each-subject" ? await countSubjects(connection, manager, options) : undefined;
    consumer = await drawConsumer(connection, manager, options, there?.leader);
    consumer.hear(hear);
    yield* read(connection, mailbox.take, there?.subjects, options.onAlive);
  } catch (error) {
    if (signal.aborted) return;
    throw toFault(error, doing);
  } finally {
    clearTimeout(silence);
    signal.removeEventListener("abort", stop);
    stopListening();
    consumer?.end();
  }
}

type Hear = (error: Error | null, message: Msg) => void;

type Consumer = {
  /** The server of the consumer; undefined with a single server. */
  readonly server: string | undefined;
  /** Sets the receiver of messages. Messages that arrived earlier are delivered first. */
  hear(by: Hear): void;
  end(): void;
};

/** Creates a consumer, on the leader of the stream if requested. */
async function drawConsumer(
  connection: NatsConnection,
  manager: JetStreamManager,
  options: OrderedOptions,
  leader: string | undefined,
): Promise<Consumer> {
  for (let draw = 1; draw <= MAX_DRAWS; draw += 1) {
    const consumer = await addConsumer(connection, manager, options);
    if (options.atLeader !== true || leader === undefined || consumer.server === leader) return consumer;
    consumer.end();
  }
  throw buildUnavailableError(`following ${options.stream}: no consumer was on ${leader}, which leads it`);
}

async function addConsumer(
  connection: NatsConnection,
  manager: JetStreamManager,
  { stream, subject, from, timeoutMs = REQUEST_TIMEOUT_MS }: OrderedOptions,
): Promise<Consumer> {
  const name = `muster_${nuid.next()}`;
  const inbox = makeInbox(connection);
  const early: Parameters<Hear>[] = [];
  let hear: Hear = (...heard) => void early.push(heard);
  const subscription = connection.subscribe(inbox, { callback: (...heard) => hear(...heard) });
  const end = (): void => {
    subscription.unsubscribe();
    // The server deletes an inactive consumer itself if this fails.
    manager.consumers.delete(stream, name).catch(() => undefined);
  };
  try {
    const { cluster } = await requestOnce(connection, timeoutMs, () =>
      manager.consumers.add(stream, {
        name,
        deliver_subject: inbox,
        ...buildStart(from),
        ack_policy: AckPolicy.None,
        replay_policy: ReplayPolicy.Instant,
        filter_subject: subject,
        flow_control: true,
        idle_heartbeat: nanos(HEARTBEAT_MS),
        inactive_threshold: nanos(INACTIVE_MS),
        mem_storage: true,
        num_replicas: 1,
      }),
    );
    return {
      server: cluster?.leader,
      hear: (by) => {
        hear = by;
        for (const heard of early) hear(...heard);
      },
      end,
    };
  } catch (error) {
    end();
    throw error;
  }
}

function buildStart(
  from: OrderedOptions["from"],
):
  | { deliver_policy: typeof DeliverPolicy.LastPerSubject }
  | { deliver_policy: "by_start_sequence"; opt_start_seq: number } {
  return from === "last-of-each-subject"
    ? { deliver_policy: DeliverPolicy.LastPerSubject }
    : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: from };
}

/** The state of a stream: its leading server, where there are several, and the subjects that have messages. */
type There = { readonly leader: string | undefined; readonly subjects: Set<string> };

/** Counts the subjects by reading them. A subject with a new message moves behind newer ones during the pass, and the server's pending count lags. */
async function countSubjects(
  connection: NatsConnection,
  manager: JetStreamManager,
  { stream, subject, timeoutMs = REQUEST_TIMEOUT_MS }: OrderedOptions,
): Promise<There> {
  const { config, state, cluster } = await requestOnce(connection, timeoutMs, () =>
    manager.streams.info(stream, { subjects_filter: subject }),
  );
  // With one replica, all consumers are on the server of the stream.
  const leader = config.num_replicas > 1 ? cluster?.leader : undefined;
  return { leader, subjects: new Set(Object.keys(state.subjects ?? {})) };
}

async function* read(
  connection: NatsConnection,
  take: () => Promise<Msg>,
  pendingSubjects: Set<string> | undefined,
  onAlive: (() => void) | undefined,
): AsyncGenerator<StreamMessage | { readonly kind: "caught-up" }, undefined> {
  let delivered = 0;
  let caughtUp = pendingSubjects === undefined;
  onAlive?.();
  if (pendingSubjects?.size === 0) {
    caughtUp = true;
    yield { kind: "caught-up" };
  }
  for (;;) {
    const message = await take();
    if (isControl(message)) {
      answerControl(connection, message);
      const sent = message.headers?.get(JsHeaders.LastConsumerSeqHdr);
      // A flow-control request does not contain the position of the server.
      if (sent === undefined || sent === "") continue;
      if (Number(sent) !== delivered) throw buildUnavailableError(`message ${delivered + 1} of ${sent} was lost`);
      onAlive?.();
      // An idle server has sent everything, so a subject that is still missing was deleted without a mark.
      if (!caughtUp && !isStalled(message)) {
        caughtUp = true;
        yield { kind: "caught-up" };
      }
      continue;
    }
    const position = readPosition(message);
    delivered += 1;
    if (position.delivery !== delivered) throw buildUnavailableError(`message ${delivered} was lost`);
    onAlive?.();
    yield {
      kind: "message",
      subject: message.subject,
      payload: message.data,
      // Decodes headers on demand, because most readers do not need them.
      get headers() {
        return message.headers;
      },
      sequence: position.sequence,
    };
    pendingSubjects?.delete(message.subject);
    if (!caughtUp && pendingSubjects?.size === 0) {
      caughtUp = true;
      yield { kind: "caught-up" };
    }
  }
}

function isControl(message: Msg): boolean {
  // Status messages are empty. Decoding the headers of each message would cost as much as the message.
  if (message.data.length > 0) return false;
  const code = message.headers?.code ?? 0;
  if (code === 0) return false;
  if (code !== CONTROL) throw buildUnavailableError(`the consumer ended with status ${code}`);
  return true;
}

/** Answers flow control in message order, so that the server sends only as fast as the reader reads. */
function answerControl(connection: NatsConnection, message: Msg): void {
  if (message.reply !== undefined && message.reply !== "") {
    message.respond();
    return;
  }
  const stalled = message.headers?.get(JsHeaders.ConsumerStalledHdr);
  if (stalled !== undefined && stalled !== "") connection.publish(stalled, Empty);
}

function isStalled(message: Msg): boolean {
  return (message.headers?.get(JsHeaders.ConsumerStalledHdr) ?? "") !== "";
}

/** Parses `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<stream sequence>.<delivery>.<time>.<pending>[.<token>]`. */
function readPosition(message: Msg): { readonly sequence: number; readonly delivery: number } {
  const tokens = (message.reply ?? "").split(".");
  const shift = tokens.length >= 11 ? 2 : 0;
  const number = (at: number): number => Number(tokens[at + shift]);
  return { sequence: number(5), delivery: number(6) };
}
