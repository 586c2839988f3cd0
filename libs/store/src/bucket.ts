import { jetstream, jetstreamManager, type JetStreamClient, type JetStreamManager } from "@nats-io/jetstream";
import { Empty, type MsgHdrs, type NatsConnection } from "@nats-io/nats-core";
import { FaultError, throwFault } from "@muster/faults";
import {
  DELETE_MARK_TTL_MS,
  ensureBucket,
  HEADER_BYTES,
  MAX_BYTES,
  MAX_VALUE_BYTES,
  type BucketLimits,
} from "./bucket-stream.ts";
import type { Codec } from "./codec.ts";
import { requestOnce } from "./connection-events.ts";
import { buildDeleteMark, isDeleted, isDeleteMark } from "./delete-mark.ts";
import {
  isFull,
  isServerFull,
  isWrongSequence,
  JETSTREAM,
  findJetStreamCode,
  buildServerFullError,
  toFault,
  buildUnavailableError,
} from "./jetstream-fault.ts";
import { compareKeys, requireValidFilter, requireValidKey } from "./keys.ts";
import { makeModify, type ModifyKey, type SingleKey } from "./modify.ts";
import { consumeInOrder } from "./consume-in-order.ts";
import { type BucketSize, exportBucketSize } from "./export-bucket-size.ts";
import { measureOperation } from "./telemetry.ts";
import { confirmStored } from "./confirm-stored.ts";
import { watchBucket, type Change, type Entry, type PresentKeys } from "./watch.ts";

export type WatchOptions = {
  readonly filter?: string;
  readonly signal: AbortSignal;
  /** `current`: nothing is missing at this moment; repeated with every heartbeat. `interrupted`: changes may be missing until the next `current`. */
  readonly onStatus?: (status: "current" | "interrupted") => void;
  /** Called on each interruption, with the time until the next attempt. */
  readonly onProblem?: (error: unknown, retryInMs: number) => void;
  /** Interval of checks for keys that disappeared without a deletion mark; default 10 minutes. */
  readonly checkMs?: number;
};

/**
 * Typed key-value on JetStream. Every write names the revision it replaces, so no write is lost to a concurrent one. Rejects with FaultError: conflict,
 * already_exists, limit_exceeded (value too large, bucket full), invalid_request (key), unavailable ("disk of nats" if the server answers but does not store).
 * After unavailable the outcome is unknown: read, or write again and treat a conflict as the answer.
 */
export type Bucket<Value, Input = Value> = {
  readonly name: string;
  get(key: string): Promise<Entry<Value> | undefined>;
  /** Writes a key that does not exist or was deleted; rejects with already_exists otherwise. Returns the revision. */
  create(key: string, value: Input): Promise<number>;
  /** Replaces the value of exactly this revision; rejects with conflict otherwise. Returns the new revision. */
  update(key: string, value: Input, expectedRevision: number): Promise<number>;
  /** Deletes the key if it still has this revision; rejects with conflict otherwise. */
  delete(key: string, expectedRevision: number): Promise<void>;
  /** Changes one key as `ModifyKey` states. */
  modify(...of: Parameters<ModifyKey<Value, Input>>): ReturnType<ModifyKey<Value, Input>>;
  /** Lists matching entries in key order. `filter` has the form of a subject: `session.*.>`; default: all. */
  list(filter?: string): Promise<Entry<Value>[]>;
  /**
   * Yields the present entries, then "synced", then every later change, in order per key, until the signal. Survives reconnects without a gap. After its first
   * "synced" it also survives refusals (a limit, a permission).
   */
  watch(options: WatchOptions): AsyncIterable<Change<Value>>;
};

export type BucketConfig<Value, Input = Value> = BucketLimits & {
  readonly codec: Codec<Value, Input>;
  /** Retry hint of a write that the full bucket refuses; default 0: a retry helps only after a deletion. */
  readonly fullRetryAfterMs?: number;
  /** Time limit of one request to the server; default 5000. */
  readonly timeoutMs?: number;
  /**
   * Called by list or watch with a value that does not decode, and its key; both continue as if the key were missing. Default: a process warning. `get` of such
   * a key rejects with a plain Error: it is a defect.
   */
  readonly onDecodeError?: (error: Error, key: string) => void;
};

const TIMEOUT_MS = 5000;
/** Each check costs the server a list of the keys. */
const CHECK_MS = 600_000;
/** Limits the wait of a metrics scrape for an unreachable server. */
const FILL_TIMEOUT_MS = 1000;

/** The state that the operations on an open bucket share. */
type Opened<Value, Input> = {
  readonly connection: NatsConnection;
  readonly config: BucketConfig<Value, Input>;
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly timeoutMs: number;
  readonly stream: string;
  /** The prefix of the subjects of keys. */
  readonly prefix: string;
  /** The size limit at the last time the bucket was opened. */
  readonly bytes: { max: number | undefined };
};

/**
 * Opens the bucket, creating a missing one. Idempotent; safe from concurrent processes. Sets explicit limits on an existing bucket, and keeps its limits for
 * omitted ones. The layout is that of NATS key-value, so `nats kv` shows it.
 */
export async function openBucket<Value, Input>(
  connection: NatsConnection,
  config: BucketConfig<Value, Input>,
): Promise<Bucket<Value, Input>> {
  const { name, timeoutMs = TIMEOUT_MS } = config;
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: timeoutMs });
  const client = jetstream(connection, { timeout: timeoutMs });
  const bytes: Opened<Value, Input>["bytes"] = { max: undefined };
  const stream = `KV_${name}`;
  const opened = { connection, config, client, manager, timeoutMs, stream, prefix: `$KV.${name}.`, bytes };
  const ensure = async (): Promise<void> => {
    bytes.max = await requestOnce(connection, timeoutMs, () => ensureBucket(connection, manager, config, stream));
  };
  await ensure();
  exportBucketSize(connection, name, () => readBucketSize(connection, name, FILL_TIMEOUT_MS));
  const single: SingleKey<Value, Input> = {
    get: (key) => measureOperation("get", name, () => get(opened, key)),
    create: (key, value) => measureOperation("create", name, () => create(opened, key, value)),
    update: (key, value, expectedRevision) =>
      measureOperation("update", name, () => update(opened, key, value, expectedRevision)),
    delete: (key, expectedRevision) => measureOperation("delete", name, () => remove(opened, key, expectedRevision)),
  };
  return {
    name,
    ...single,
    modify: makeModify(single),
    list: (filter = ">") => measureOperation("list", name, () => list(opened, filter)),
    watch: (options) =>
      watchBucket(connection, {
        name,
        stream: opened.stream,
        prefix: opened.prefix,
        filter: requireValidFilter(options.filter ?? ">"),
        signal: options.signal,
        onStatus: options.onStatus ?? (() => undefined),
        onProblem: options.onProblem ?? (() => undefined),
        ensure,
        checkMs: options.checkMs ?? CHECK_MS,
        present: () => listPresent(opened, options.filter ?? ">"),
        created: async () =>
          (await requestOnce(connection, timeoutMs, () => manager.streams.info(opened.stream))).created,
        read: (message) => {
          const key = message.subject.slice(opened.prefix.length);
          if (isDeleted(message)) return { key, entry: undefined };
          return { key, entry: decodeOrSkip(opened, key, message.sequence, message.payload) };
        },
      }),
  };
}

/** Returns the size and the limit of the bucket. Rejects as a bucket does. */
export async function readBucketSize(
  connection: NatsConnection,
  name: string,
  timeoutMs = TIMEOUT_MS,
): Promise<BucketSize> {
  try {
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: timeoutMs });
    const { state, config } = await requestOnce(connection, timeoutMs, () => manager.streams.info(`KV_${name}`));
    return { bytes: state.bytes, maxBytes: config.max_bytes > 0 ? config.max_bytes : undefined };
  } catch (error) {
    throw toFault(error, `looking at bucket ${name}`);
  }
}

/**
 * Returns the revision of the latest write to the bucket: a view of this revision has every write that was acknowledged before the call. Rejects as a bucket
 * does.
 */
export async function readBucketRevision(
  connection: NatsConnection,
  name: string,
  timeoutMs = TIMEOUT_MS,
): Promise<number> {
  try {
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: timeoutMs });
    return (await requestOnce(connection, timeoutMs, () => manager.streams.info(`KV_${name}`))).state.last_seq;
  } catch (error) {
    throw toFault(error, `reading the revision of bucket ${name}`);
  }
}

/** Returns the creation time of the bucket, by the clock of the server: the bucket never held anything older. Rejects as a bucket does. */
export async function readBucketCreatedAtMs(
  connection: NatsConnection,
  name: string,
  timeoutMs = TIMEOUT_MS,
): Promise<number> {
  try {
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: timeoutMs });
    return Date.parse((await requestOnce(connection, timeoutMs, () => manager.streams.info(`KV_${name}`))).created);
  } catch (error) {
    throw toFault(error, `looking at bucket ${name}`);
  }
}

async function get<Value, Input>(opened: Opened<Value, Input>, key: string): Promise<Entry<Value> | undefined> {
  const found = await last(opened, key);
  if (found === undefined || found.deleted) return undefined;
  return decode(opened, key, found.revision, found.bytes);
}

async function create<Value, Input>(opened: Opened<Value, Input>, key: string, value: Input): Promise<number> {
  const bytes = encode(opened, key, value);
  let expected = 0;
  for (;;) {
    try {
      return await write(opened, key, bytes, expected);
    } catch (error) {
      if (!isWrongSequence(error)) throw writeFault(opened, key, error);
      const found = await last(opened, key);
      if (found !== undefined && !found.deleted)
        throw new FaultError({ code: "already_exists", kind: opened.config.name, id: key }, { cause: error });
      // A deletion mark has this revision, or has expired meanwhile.
      expected = found?.revision ?? 0;
    }
  }
}

async function update<Value, Input>(
  opened: Opened<Value, Input>,
  key: string,
  value: Input,
  expectedRevision: number,
): Promise<number> {
  const expected = validRevision(expectedRevision);
  const bytes = encode(opened, key, value);
  return write(opened, key, bytes, expected).catch((error: unknown) => {
    throw replaceFault(opened, key, expected, error);
  });
}

async function remove<Value, Input>(
  opened: Opened<Value, Input>,
  key: string,
  expectedRevision: number,
): Promise<void> {
  const expected = validRevision(expectedRevision);
  const mark = buildDeleteMark(DELETE_MARK_TTL_MS);
  try {
    await write(opened, key, Empty, expected, mark).catch(async (error: unknown) => {
      if (!isFull(error)) throw error;
      // A full bucket has no room for the mark until the value has gone. A newer revision stays, and then the mark is refused.
      // If this process ends before it writes the mark, watches report the deletion at their next check.
      await opened.manager.streams.purge(opened.stream, { filter: buildSubject(opened, key), seq: expected + 1 });
      await write(opened, key, Empty, 0, mark);
    });
  } catch (error) {
    throw replaceFault(opened, key, expected, error);
  }
}

async function list<Value, Input>(opened: Opened<Value, Input>, filter: string): Promise<Entry<Value>[]> {
  const { connection, stream, prefix, timeoutMs } = opened;
  const subject = prefix + requireValidFilter(filter);
  const entries = new Map<string, Entry<Value>>();
  const { signal } = new AbortController();
  for await (const message of consumeInOrder(connection, {
    stream,
    subject,
    from: "last-of-each-subject",
    atLeader: true,
    signal,
    timeoutMs,
  })) {
    if (message.kind === "caught-up") break;
    const key = message.subject.slice(prefix.length);
    const entry = isDeleted(message) ? undefined : decodeOrSkip(opened, key, message.sequence, message.payload);
    if (entry === undefined) entries.delete(key);
    else entries.set(key, entry);
  }
  return [...entries.values()].sort(compareKeys);
}

/** Lists keys with a value or a deletion mark, and the revision of the bucket at that time. */
async function listPresent<Value, Input>(opened: Opened<Value, Input>, filter: string): Promise<PresentKeys> {
  const { connection, manager, stream, prefix, timeoutMs } = opened;
  const { state } = await requestOnce(connection, timeoutMs, () =>
    manager.streams.info(stream, { subjects_filter: prefix + requireValidFilter(filter) }),
  );
  const keys = new Set(Object.keys(state.subjects ?? {}).map((subject) => subject.slice(prefix.length)));
  return { keys, revision: state.last_seq };
}

type Last = { readonly bytes: Uint8Array; readonly revision: number; readonly deleted: boolean };

/** Reads from the leader of the stream, so that it returns every write acknowledged before. */
async function last<Value, Input>(opened: Opened<Value, Input>, key: string): Promise<Last | undefined> {
  const { connection, manager, stream, timeoutMs } = opened;
  const subject = buildSubject(opened, key);
  try {
    const stored = await requestOnce(connection, timeoutMs, () =>
      manager.streams.getMessage(stream, { last_by_subj: subject }),
    );
    if (stored === null) return undefined;
    return { bytes: stored.data, revision: stored.seq, deleted: isDeleteMark(stored.header) };
  } catch (error) {
    const doing = `reading ${opened.config.name}/${key}`;
    // Just after the creation of the bucket, a server without a leader may not know the stream.
    throw findJetStreamCode(error) === JETSTREAM.streamNotFound
      ? buildUnavailableError(doing, error)
      : toFault(error, doing);
  }
}

async function write<Value, Input>(
  opened: Opened<Value, Input>,
  key: string,
  bytes: Uint8Array,
  expected: number,
  header?: MsgHdrs,
): Promise<number> {
  const { connection, client, manager, stream, timeoutMs } = opened;
  const subject = buildSubject(opened, key);
  const options = { expect: { lastSubjectSequence: expected }, timeout: timeoutMs, ...(header && { headers: header }) };
  const send = () => requestOnce(connection, timeoutMs, () => client.publish(subject, bytes, options));
  const question = () => manager.streams.info(stream);
  return (await confirmStored(send, { question, timeoutMs, doing: `writing ${opened.config.name}/${key}` })).seq;
}

function buildSubject<Value, Input>(opened: Opened<Value, Input>, key: string): string {
  return opened.prefix + requireValidKey(key);
}

function encode<Value, Input>(opened: Opened<Value, Input>, key: string, value: Input): Uint8Array {
  const { codec, name, maxValueBytes = MAX_VALUE_BYTES } = opened.config;
  const bytes = codec.encode(value);
  const payload = opened.connection.info?.max_payload ?? Number.POSITIVE_INFINITY;
  const limit = Math.min(maxValueBytes, payload - HEADER_BYTES);
  if (bytes.length <= limit) return bytes;
  const what = `value of ${name}/${key} with ${bytes.length} bytes`;
  return throwFault({ code: "limit_exceeded", what, limit, retryAfterMs: 0 });
}

function decode<Value, Input>(
  opened: Opened<Value, Input>,
  key: string,
  revision: number,
  bytes: Uint8Array,
): Entry<Value> {
  try {
    return { key, value: opened.config.codec.decode(bytes), revision };
  } catch (error) {
    throw new Error(`decoding ${opened.config.name}/${key} at revision ${revision}`, { cause: error });
  }
}

function decodeOrSkip<Value, Input>(
  opened: Opened<Value, Input>,
  key: string,
  revision: number,
  bytes: Uint8Array,
): Entry<Value> | undefined {
  try {
    return decode(opened, key, revision, bytes);
  } catch (error) {
    const report = opened.config.onDecodeError ?? ((problem: Error) => process.emitWarning(problem));
    report(error instanceof Error ? error : new Error(String(error)), key);
    return undefined;
  }
}

function replaceFault<Value, Input>(
  opened: Opened<Value, Input>,
  key: string,
  expectedRevision: number,
  error: unknown,
): unknown {
  if (!isWrongSequence(error)) return writeFault(opened, key, error);
  const id = `${opened.config.name}/${key}`;
  return new FaultError({ code: "conflict", id, expectedRevision, actualRevision: 0 }, { cause: error });
}

function writeFault<Value, Input>(opened: Opened<Value, Input>, key: string, error: unknown): unknown {
  const { name, fullRetryAfterMs: retryAfterMs = 0 } = opened.config;
  const { max: limit = MAX_BYTES } = opened.bytes;
  if (isServerFull(error)) return buildServerFullError(error);
  if (!isFull(error)) return toFault(error, `writing ${name}/${key}`);
  const what = `size of bucket ${name}`;
  return new FaultError({ code: "limit_exceeded", what, limit, retryAfterMs }, { cause: error });
}

/** Rejects 0, which the server would read as "does not exist". */
function validRevision(revision: number): number {
  if (Number.isSafeInteger(revision) && revision > 0) return revision;
  return throwFault({ code: "invalid_request", field: "expectedRevision", reason: `${revision} is not a revision` });
}
