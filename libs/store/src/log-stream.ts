import {
  DiscardPolicy,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type JetStreamManager,
  type StreamConfig,
} from "@nats-io/jetstream";
import { headers, type MsgHdrs, type NatsConnection } from "@nats-io/nats-core";
import { FaultError, findFault } from "@muster/faults";
import { computeBackoffMs, makeDeadline, pause } from "@muster/backoff";
import { buildReplicasConfig, findReplicasRefusal } from "@muster/jetstream";
import { requestOnce, waitForConnection, RETRY } from "./connection-events.ts";
import { isFull, isWrongSequence, JETSTREAM, findJetStreamCode, toFault } from "./jetstream-fault.ts";
import { consumeInOrder } from "./consume-in-order.ts";
import { measureOperation } from "./telemetry.ts";
import { confirmStored } from "./confirm-stored.ts";

/** The stream of a log: entries at consecutive sequences, each with the fencing token of its writer. */
export type LogStream = {
  /** Creates a missing stream, and ensures that an existing one drops no entry automatically. */
  ensure(): Promise<void>;
  /** Returns the token of the last entry; 0 for an empty log. */
  lastToken(): Promise<number>;
  /** Appends unconditionally; returns the sequence. Afterwards the server refuses a writer that expects another last entry. */
  fence(bytes: Uint8Array): Promise<number>;
  /** Reads entries from one sequence to another, both included, without a gap. */
  read(from: number, to: number): AsyncIterable<LogEntry>;
  /** Appends directly after this sequence, and determines the outcome if the answer is lost. */
  append(bytes: Uint8Array, expectedLast: number, signal: AbortSignal): Promise<AppendResult>;
  /** Drops the entries before this sequence. */
  dropBefore(sequence: number): Promise<void>;
};

export type LogEntry = { readonly sequence: number; readonly token: number; readonly bytes: Uint8Array };

export type AppendResult =
  | { readonly kind: "written"; readonly sequence: number }
  /** `deposed`: another writer wrote at this sequence. `refused`: the server rejects the entry. `unknown`: it may be on disk or not. */
  | { readonly kind: "deposed" | "refused" | "unknown"; readonly error: unknown };

const TOKEN = "Muster-Token";
const MESSAGE_ID = "Nats-Msg-Id";
const TIMEOUT_MS = 5000;
/** Time limit for determining the outcome of an entry. */
const GIVE_UP_MS = 30_000;
/** Maximum consecutive interrupted reads of the tail. */
const READ_ATTEMPTS = 10;

export async function openLogStream(
  connection: NatsConnection,
  stream: { readonly name: string; readonly subject: string },
  writer: { readonly token: number; readonly id: string },
): Promise<LogStream> {
  const { name, subject } = stream;
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: TIMEOUT_MS });
  const client = jetstream(connection, { timeout: TIMEOUT_MS });
  let entries = 0;
  const nextId = (): string => `${writer.token}-${writer.id}-${(entries += 1)}`;
  const askAbout = async <Reply>(doing: string, request: () => Promise<Reply>): Promise<Reply> => {
    try {
      return await requestOnce(connection, TIMEOUT_MS, request);
    } catch (error) {
      throw writeFault(name, toFault(error, `${doing} log ${name}`));
    }
  };
  const publish = async (id: string, bytes: Uint8Array, expectedLast?: number): Promise<number> => {
    const header = headers();
    header.set(TOKEN, String(writer.token));
    const expect = expectedLast === undefined ? {} : { expect: { lastSequence: expectedLast } };
    const options = { msgID: id, headers: header, timeout: TIMEOUT_MS, ...expect };
    const send = () => requestOnce(connection, TIMEOUT_MS, () => client.publish(subject, bytes, options));
    const question = () => manager.streams.info(name);
    return (await confirmStored(send, { question, timeoutMs: TIMEOUT_MS, doing: `writing log ${name}` })).seq;
  };
  /** Returns the writer of the entry at this sequence; undefined if no entry exists. */
  const writerAt = async (sequence: number): Promise<string | undefined> => {
    const stored = await requestOnce(connection, TIMEOUT_MS, () => manager.streams.getMessage(name, { seq: sequence }));
    return stored === null ? undefined : stored.header.get(MESSAGE_ID);
  };

  return {
    ensure: () => askAbout("opening", () => ensureStream(manager, stream, buildReplicasConfig(connection))),
    lastToken: () =>
      askAbout("reading", async () => {
        const stored = await manager.streams.getMessage(name, { last_by_subj: subject });
        return stored === null ? 0 : readToken(stored.header);
      }),
    fence: async (bytes) => {
      const id = nextId();
      // Repeats the same message id, so that the server stores the entry once.
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await askAbout("fencing", () => publish(id, bytes));
        } catch (error) {
          if (attempt === READ_ATTEMPTS || findFault(error)?.code !== "unavailable") throw error;
          await pause(computeBackoffMs(attempt + 1, RETRY), AbortSignal.timeout(TIMEOUT_MS));
        }
      }
    },
    read: (from, to) => readEntries(connection, stream, from, to),
    append: (bytes, expectedLast, signal) =>
      measureOperation("append", name, () =>
        appendBehind({ connection, name, publish, writerAt }, { id: nextId(), bytes, expectedLast }, signal),
      ),
    dropBefore: async (sequence) => {
      await askAbout("shortening", () => manager.streams.purge(name, { seq: sequence }));
    },
  };
}

type Publishing = {
  readonly connection: NatsConnection;
  readonly name: string;
  readonly publish: (id: string, bytes: Uint8Array, expectedLast: number) => Promise<number>;
  readonly writerAt: (sequence: number) => Promise<string | undefined>;
};

async function appendBehind(
  { connection, name, publish, writerAt }: Publishing,
  entry: { readonly id: string; readonly bytes: Uint8Array; readonly expectedLast: number },
  signal: AbortSignal,
): Promise<AppendResult> {
  const { id, bytes, expectedLast } = entry;
  // Only failed entries create a timer: they are rare among thousands of entries a second.
  using undo = new DisposableStack();
  let giveUp: AbortSignal | undefined;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return { kind: "written", sequence: await publish(id, bytes, expectedLast) };
    } catch (error) {
      const lost = findFault(toFault(error, ""))?.code === "unavailable";
      if (attempt === 0 && !lost && !isWrongSequence(error)) return { kind: "refused", error: writeFault(name, error) };
      giveUp ??= undo.use(makeDeadline(GIVE_UP_MS, [signal])).signal;
      const truth = await readUntilAnswered(() => writerAt(expectedLast + 1), connection, giveUp);
      if (truth.kind === "unknown") return { kind: "unknown", error };
      if (truth.writer === id) return { kind: "written", sequence: expectedLast + 1 };
      if (truth.writer !== undefined || isWrongSequence(error)) return { kind: "deposed", error };
      if (!lost) return { kind: "refused", error: writeFault(name, error) };
      // The entry is missing and may still be in flight. Sending it again is safe, because only one entry can have this sequence.
      await pause(computeBackoffMs(attempt + 1, RETRY), giveUp);
      if (giveUp.aborted) return { kind: "unknown", error };
    }
  }
}

/** Retries until an answer arrives or the time limit is reached. */
async function readUntilAnswered(
  writerAt: () => Promise<string | undefined>,
  connection: NatsConnection,
  giveUp: AbortSignal,
): Promise<{ readonly kind: "known"; readonly writer: string | undefined } | { readonly kind: "unknown" }> {
  for (let attempt = 0; !giveUp.aborted && !connection.isClosed(); attempt += 1) {
    // Pauses first: the loss of the connection is reported a moment after its requests have failed.
    await pause(computeBackoffMs(attempt + 1, RETRY), giveUp);
    await waitForConnection(connection, giveUp);
    try {
      return { kind: "known", writer: await writerAt() };
    } catch {
      continue;
    }
  }
  return { kind: "unknown" };
}

async function* readEntries(
  connection: NatsConnection,
  stream: { readonly name: string; readonly subject: string },
  from: number,
  to: number,
): AsyncGenerator<LogEntry, undefined> {
  let next = from;
  for (let failures = 0; next <= to;) {
    try {
      const options = {
        stream: stream.name,
        subject: stream.subject,
        from: next,
        signal: new AbortController().signal,
      };
      for await (const message of consumeInOrder(connection, options)) {
        if (message.kind === "caught-up") continue;
        if (message.sequence !== next)
          throw new Error(`log ${stream.name} lacks entry ${next}: the next one is ${message.sequence}`);
        yield { sequence: next, token: readToken(message.headers), bytes: message.payload };
        next += 1;
        failures = 0;
        if (next > to) return;
      }
    } catch (error) {
      failures += 1;
      if (failures > READ_ATTEMPTS || findFault(error)?.code !== "unavailable") throw error;
      await waitForConnection(connection, AbortSignal.timeout(TIMEOUT_MS));
      await pause(computeBackoffMs(failures + 1, RETRY), AbortSignal.timeout(TIMEOUT_MS));
    }
  }
}

async function ensureStream(
  manager: JetStreamManager,
  stream: { readonly name: string; readonly subject: string },
  replicas: { readonly num_replicas?: number },
): Promise<void> {
  const config = await manager.streams.info(stream.name).then(
    (info) => info.config,
    (error: unknown) => {
      if (findJetStreamCode(error) !== JETSTREAM.streamNotFound) throw error;
      return addStream(manager, stream, replicas);
    },
  );
  const problem = findProblem(config, stream.subject);
  if (problem !== undefined) throw new Error(`stream ${stream.name} cannot hold a log: ${problem}`);
  const { num_replicas = config.num_replicas } = replicas;
  if (config.num_replicas === num_replicas) return;
  await manager.streams.update(stream.name, { ...config, num_replicas }).catch((error: unknown) => {
    throw findReplicasRefusal(error, stream.name) ?? error;
  });
}

async function addStream(
  manager: JetStreamManager,
  { name, subject }: { readonly name: string; readonly subject: string },
  replicas: { readonly num_replicas?: number },
): Promise<StreamConfig> {
  try {
    const info = await manager.streams.add({
      name,
      subjects: [subject],
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      discard: DiscardPolicy.New,
      ...replicas,
    });
    return info.config;
  } catch (error) {
    if (findJetStreamCode(error) !== JETSTREAM.streamNameInUse) throw findReplicasRefusal(error, name) ?? error;
    return (await manager.streams.info(name)).config;
  }
}

function findProblem(config: StreamConfig, subject: string): string | undefined {
  if (config.subjects.length !== 1 || config.subjects[0] !== subject) return `it does not bind ${subject} alone`;
  if (config.retention !== RetentionPolicy.Limits) return "its messages vanish when they are read";
  if (config.max_age > 0) return "its messages vanish with time";
  if (config.max_msgs_per_subject > 0) return "it keeps only the last messages";
  if (config.discard !== DiscardPolicy.New && (config.max_msgs > 0 || config.max_bytes > 0))
    return "it drops old messages when it is full";
  return undefined;
}

function readToken(header: MsgHdrs | undefined): number {
  const token = Number(header?.get(TOKEN) ?? 0);
  return Number.isSafeInteger(token) ? token : 0;
}

function writeFault(name: string, error: unknown): unknown {
  if (!isFull(error)) return error;
  return new FaultError(
    { code: "limit_exceeded", what: `size of log ${name}`, limit: 0, retryAfterMs: 0 },
    { cause: error },
  );
}
