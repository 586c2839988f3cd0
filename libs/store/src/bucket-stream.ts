import {
  DiscardPolicy,
  RetentionPolicy,
  StorageType,
  type JetStreamManager,
  type StreamConfig,
} from "@nats-io/jetstream";
import { nanos, PermissionViolationError, type NatsConnection } from "@nats-io/nats-core";
import { throwFault } from "@muster/faults";
import { buildReplicasConfig, findReplicasRefusal } from "@muster/jetstream";
import { findJetStreamCode, JETSTREAM, toFault } from "./jetstream-fault.ts";

export const MAX_VALUE_BYTES = 512 * 1024;
export const MAX_BYTES = 256 * 1024 * 1024;
/** Space for the headers beside the value. */
export const HEADER_BYTES = 1024;
/** Lifetime of deletion marks. A watch that was interrupted for longer compares keys and needs no marks. */
export const DELETE_MARK_TTL_MS = 3_600_000;

export type BucketLimits = {
  readonly name: string;
  /** Maximum size of a value in bytes; default 512 KiB. */
  readonly maxValueBytes?: number;
  /** Maximum size of the whole bucket in bytes; default 256 MiB. */
  readonly maxBytes?: number;
  /** Lifetime of an entry after its last write; default: unlimited. */
  readonly ttlMs?: number;
};

/** Creates the stream of a bucket, or sets the given limits on an existing one. Resolves with its maximum in bytes; undefined: no limit. */
export async function ensureBucket(
  connection: NatsConnection,
  manager: JetStreamManager,
  config: BucketLimits,
  stream: string,
): Promise<number | undefined> {
  const doing = `opening bucket ${config.name}`;
  if (!/^[-\w]+$/.test(config.name))
    throwFault({ code: "invalid_request", field: "bucket", reason: `"${config.name}" cannot be the name of a bucket` });
  const explicit = {
    ...(config.maxBytes !== undefined && { max_bytes: config.maxBytes }),
    ...(config.maxValueBytes !== undefined && { max_msg_size: config.maxValueBytes + HEADER_BYTES }),
    ...(config.ttlMs !== undefined && { max_age: nanos(config.ttlMs) }),
    ...buildReplicasConfig(connection),
  };
  try {
    const found = await findStream(manager, stream);
    if (found === undefined) {
      await addStream(manager, {
        name: stream,
        subjects: [`$KV.${config.name}.>`],
        max_bytes: MAX_BYTES,
        max_msg_size: MAX_VALUE_BYTES + HEADER_BYTES,
        ...explicit,
      });
      return explicit.max_bytes ?? MAX_BYTES;
    }
    const differs = Object.entries(explicit).some(([field, value]) => Reflect.get(found, field) !== value);
    if (differs) await manager.streams.update(stream, { ...found, ...explicit }).catch(unlessForbidden);
    const bytes = explicit.max_bytes ?? found.max_bytes;
    return bytes > 0 ? bytes : undefined;
  } catch (error) {
    throw findReplicasRefusal(error, stream) ?? toFault(error, doing);
  }
}

/** Ignores a missing right: only the owner of a bucket sets its limits, not a reader or the holder of one lock. */
function unlessForbidden(error: unknown): void {
  if (!(error instanceof PermissionViolationError)) throw error;
}

async function findStream(manager: JetStreamManager, stream: string): Promise<StreamConfig | undefined> {
  try {
    return (await manager.streams.info(stream)).config;
  } catch (error) {
    if (findJetStreamCode(error) === JETSTREAM.streamNotFound) return undefined;
    throw error;
  }
}

async function addStream(
  manager: JetStreamManager,
  config: {
    name: string;
    subjects: string[];
    max_bytes: number;
    max_msg_size: number;
    max_age?: number;
    num_replicas?: number;
  },
): Promise<void> {
  try {
    await manager.streams.add({
      ...config,
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      discard: DiscardPolicy.New,
      max_msgs_per_subject: 1,
      allow_direct: true,
      allow_rollup_hdrs: true,
      // Expired entries leave a mark, so that watches report them.
      allow_msg_ttl: true,
      subject_delete_marker_ttl: nanos(DELETE_MARK_TTL_MS),
    });
  } catch (error) {
    // Another process has created the stream, perhaps with other limits.
    if (findJetStreamCode(error) !== JETSTREAM.streamNameInUse) throw error;
  }
}
