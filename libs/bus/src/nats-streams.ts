import {
  DiscardPolicy,
  jetstream,
  PubHeaders,
  RetentionPolicy,
  StorageType,
  type JetStreamClient,
  type JetStreamManager,
  type StreamConfig as JetStreamConfig,
} from "@nats-io/jetstream";
import { nanos, type MsgHdrs } from "@nats-io/nats-core";
import { buildReplicasConfig, findReplicasRefusal } from "@muster/jetstream";
import type { PublishResult, PublishOptions, StoredMessage, StreamConfig, StreamState } from "./bus.ts";
import { checkSize } from "./message-size.ts";
import { findApiCode, JS_ERROR } from "./nats-fault.ts";
import { toHeaders, toNatsHeaders } from "./nats-headers.ts";
import type { NatsLink } from "./nats-link.ts";
import { retryWhileUnreachable } from "./retry-while-unreachable.ts";
import { STREAM_DEFAULTS } from "./stream-defaults.ts";

const ATTEMPT_MS = 2000;

type NatsStreams = {
  readonly ensure: (stream: StreamConfig) => Promise<void>;
  readonly publish: (subject: string, payload: Uint8Array, options: PublishOptions) => Promise<PublishResult>;
  readonly read: (stream: string, subject: string, from: number) => Promise<StoredMessage | undefined>;
  readonly remove: (stream: string, sequence: number) => Promise<boolean>;
  readonly state: (stream: string) => Promise<StreamState | undefined>;
};

export function makeNatsStreams(link: NatsLink): NatsStreams {
  const js = jetstream(link.connection, { timeout: ATTEMPT_MS });
  const manager = js.jetstreamManager(false);
  return {
    ensure: async (stream) => {
      const doing = `making sure of stream ${stream.name}`;
      const jsm = await manager;
      await retryWhileUnreachable(link, doing, () =>
        ensureStream(jsm, { ...buildStreamConfig(stream), ...buildReplicasConfig(link.connection) }),
      );
    },
    publish: async (subject, payload, options) => {
      const { messageId, headers = [] } = options;
      checkSize(subject, payload, new Map([...headers, [PubHeaders.MsgIdHdr, messageId]]), link.maxPayload);
      return retryWhileUnreachable(link, `publishing to ${subject}`, () =>
        append(js, manager, subject, payload, options),
      );
    },
    read: (stream, subject, from) =>
      retryWhileUnreachable(link, `reading stream ${stream}`, async () => {
        const query = { seq: from, next_by_subj: subject };
        const stored = await (await manager).streams.getMessage(stream, query);
        if (stored === null) return undefined;
        const { subject: sentTo, data: payload, header, seq: sequence, time } = stored;
        return { subject: sentTo, payload, headers: toHeaders(header), sequence, atMs: time.getTime() };
      }),
    remove: (stream, sequence) =>
      retryWhileUnreachable(link, `removing message ${sequence} of stream ${stream}`, async () =>
        defaultIfMissing(false, MESSAGE_ABSENT, async () =>
          (await manager).streams.deleteMessage(stream, sequence, false),
        ),
      ),
    state: (stream) =>
      retryWhileUnreachable(link, `looking at stream ${stream}`, async () =>
        defaultIfMissing(undefined, [JS_ERROR.streamNotFound], async () => {
          const { messages, bytes, first_seq, last_seq } = (await (await manager).streams.info(stream)).state;
          return { messages, bytes, firstSequence: Math.max(first_seq, 1), lastSequence: last_seq };
        }),
      ),
  };
}

const MESSAGE_ABSENT: readonly number[] = [JS_ERROR.streamNotFound, JS_ERROR.noMessageFound, JS_ERROR.sequenceNotFound];

/** Returns the default if the server reports that the object is missing. */
async function defaultIfMissing<Result, Absent>(
  absent: Absent,
  codes: readonly number[],
  look: () => Promise<Result>,
): Promise<Result | Absent> {
  try {
    return await look();
  } catch (error) {
    const code = findApiCode(error);
    if (code !== undefined && codes.includes(code)) return absent;
    throw error;
  }
}

/** Builds the configuration of a stream. Omitted fields have the server's defaults. */
export function buildStreamConfig(stream: StreamConfig): Partial<JetStreamConfig> & { name: string } {
  const { name, subjects, retention } = stream;
  const common = {
    name,
    subjects: [...subjects],
    storage: StorageType.File,
    allow_direct: true,
    max_msgs: stream.maxMessages ?? -1,
    duplicate_window: nanos(stream.duplicateWindowMs ?? STREAM_DEFAULTS.duplicateWindowMs),
  };
  switch (retention) {
    case "limits":
      return {
        ...common,
        retention: RetentionPolicy.Limits,
        discard: DiscardPolicy.Old,
        max_msgs_per_subject: stream.maxMessagesPerSubject ?? -1,
        max_age: nanos(stream.maxAgeMs ?? STREAM_DEFAULTS.maxAgeMs),
        max_bytes: stream.maxBytes ?? STREAM_DEFAULTS.maxBytes,
      };
    case "workqueue":
      return {
        ...common,
        retention: RetentionPolicy.Workqueue,
        discard: DiscardPolicy.New,
        max_msgs_per_subject: 1,
        discard_new_per_subject: true,
        max_age: nanos(stream.maxAgeMs ?? 0),
        max_bytes: stream.maxBytes ?? -1,
      };
  }
}

async function ensureStream(jsm: JetStreamManager, config: Partial<JetStreamConfig> & { name: string }): Promise<void> {
  try {
    // Creating a stream with an unchanged configuration is no error, also if another process does it.
    await jsm.streams.add(config);
  } catch (error) {
    if (findApiCode(error) !== JS_ERROR.streamNameInUse) throw findReplicasRefusal(error, config.name) ?? error;
    try {
      await jsm.streams.update(config.name, config);
    } catch (cause) {
      throw findReplicasRefusal(cause, config.name) ?? cause;
    }
  }
}

async function append(
  js: JetStreamClient,
  manager: Promise<JetStreamManager>,
  subject: string,
  payload: Uint8Array,
  options: PublishOptions,
): Promise<PublishResult> {
  const { messageId, headers } = options;
  try {
    const withHeaders: { headers?: MsgHdrs } = headers === undefined ? {} : { headers: toNatsHeaders(headers) };
    const { seq, duplicate } = await js.publish(subject, payload, { msgID: messageId, ...withHeaders });
    return { sequence: seq, duplicate };
  } catch (error) {
    const queued =
      findApiCode(error) === JS_ERROR.storeFailed ? await queuedSequence(await manager, subject) : undefined;
    if (queued === undefined) throw error;
    return { sequence: queued, duplicate: true };
  }
}

/** Sequence of the equal queued command that made a work queue refuse this one. Other refusals have the same error number, so the queue is read. */
async function queuedSequence(jsm: JetStreamManager, subject: string): Promise<number | undefined> {
  const stream = await jsm.streams.find(subject);
  const { config } = await jsm.streams.info(stream);
  if (config.retention !== RetentionPolicy.Workqueue) return undefined;
  const message = await jsm.streams.getMessage(stream, { last_by_subj: subject });
  return message?.seq;
}
