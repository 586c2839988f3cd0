import { findFault } from "@muster/faults";
import { buckets, muster } from "@muster/proto";
import type { NatsBus } from "@muster/bus";
import type { LogRange } from "@muster/kube";
import { openBucket, makeProtoCodec, type Bucket } from "@muster/store";
import type { LogTail } from "./pod-logs.ts";

type KeptRange = {
  readonly bytes: Uint8Array;
  readonly nextOffset: number;
  readonly complete: boolean;
  /** True if the beginning of the log was omitted. */
  readonly truncated: boolean;
};

/** Identifies a log. */
type LogName = { readonly session: string; readonly pod: string; readonly container: string };

/** Logs of finished sessions. Rejects with FaultError. */
export type LogStore = {
  /** Stores a log and replaces an earlier log of the same name. */
  keep(name: LogName, tail: Pick<LogTail, "bytes" | "omittedBytes">): Promise<void>;
  /** Reads a range of a log. Offsets include omitted bytes, so that a follower of the growing log continues at its offset. */
  read(name: LogName, range: LogRange): Promise<KeptRange>;
  forget(session: string, pod: string): Promise<void>;
};

/** Size of all chunks except the last one, so that an offset determines its chunk. */
const CHUNK_BYTES = 256 * 1024;

const { LogChunk } = muster.session.v1;

export async function openLogStore(connection: NatsBus["connection"], totalBytes: number): Promise<LogStore> {
  const bucket = await openBucket(connection, {
    name: buckets.sessionLogs,
    codec: makeProtoCodec(LogChunk),
    maxBytes: totalBytes,
  });
  return {
    keep: async (name, { bytes, omittedBytes }) => {
      const count = Math.max(1, Math.ceil(bytes.length / CHUNK_BYTES));
      for (let index = 0; index < count; index += 1) {
        const data = bytes.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES);
        await put(bucket, keyOf(name, index), { data, omittedBytes, last: index === count - 1 });
      }
    },
    read: async (name, range) => {
      const first = await bucket.get(keyOf(name, 0));
      if (first === undefined)
        return { bytes: new Uint8Array(), nextOffset: range.offset, complete: true, truncated: false };
      const { omittedBytes } = first.value;
      const offset = Math.max(range.offset, omittedBytes);
      const index = Math.floor((offset - omittedBytes) / CHUNK_BYTES);
      const chunk = index === 0 ? first : await bucket.get(keyOf(name, index));
      const start = offset - omittedBytes - index * CHUNK_BYTES;
      const bytes = chunk?.value.data.subarray(start, start + range.limitBytes) ?? new Uint8Array();
      const end = chunk === undefined || (chunk.value.last && start + bytes.length >= chunk.value.data.length);
      return { bytes, nextOffset: offset + bytes.length, complete: end, truncated: omittedBytes > 0 };
    },
    forget: async (session, pod) => {
      for (const { key, revision } of await bucket.list(`${session}.${pod}.*.*`)) await bucket.delete(key, revision);
    },
  };
}

async function put(
  bucket: Bucket<muster.session.v1.LogChunk, muster.session.v1.LogChunk.$Properties>,
  key: string,
  value: muster.session.v1.LogChunk.$Properties,
): Promise<void> {
  try {
    await bucket.create(key, value);
  } catch (error) {
    if (findFault(error)?.code !== "already_exists") throw error;
    const found = await bucket.get(key);
    if (found === undefined) await bucket.create(key, value);
    else await bucket.update(key, value, found.revision);
  }
}

function keyOf({ session, pod, container }: LogName, index: number): string {
  return `${session}.${pod}.${container}.${index}`;
}
