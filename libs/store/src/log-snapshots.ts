import { createHash, randomUUID } from "node:crypto";
import type { NatsConnection } from "@nats-io/nats-core";
import { openBucket, type Bucket } from "./bucket.ts";
import type { Codec } from "./codec.ts";

/** The whole state at one sequence of the log. */
export type Snapshot<State> = { readonly state: State; readonly sequence: number };

export type Snapshots<State> = {
  /** undefined when there is none. Rejects with a plain Error when there is one that is damaged. */
  read(): Promise<Snapshot<State> | undefined>;
  /**
   * Replaces the one that is there if that is older; otherwise does nothing. Rejects with conflict when somebody else does the same at this moment. Stops where
   * it is once the signal is aborted: what it leaves behind goes with the next one.
   */
  write(snapshot: Snapshot<State>, signal: AbortSignal): Promise<void>;
};

/** A snapshot may be larger than a message: its bytes lie in parts beside the head, which names them. */
type Head = { readonly sequence: number; readonly id: string; readonly parts: number; readonly sha256: string };

const PART_BYTES = 256 * 1024;
const READ_ATTEMPTS = 5;

export async function openSnapshots<State>(
  connection: NatsConnection,
  config: { readonly bucket: string; readonly key: string; readonly codec: Codec<State> },
): Promise<Snapshots<State>> {
  const { key, codec } = config;
  const bucket = await openBucket(connection, { name: config.bucket, codec: BYTES });
  let revision = 0;
  const readHead = async (): Promise<Head | undefined> => {
    const entry = await bucket.get(key);
    revision = entry?.revision ?? 0;
    return entry === undefined ? undefined : parseHead(bucket.name, key, entry.value);
  };
  return {
    read: async () => {
      for (let attempt = 1; ; attempt += 1) {
        const head = await readHead();
        if (head === undefined) return undefined;
        const bytes = await readParts(bucket, key, head);
        if (bytes !== undefined) return { state: decode(bucket.name, key, codec, bytes), sequence: head.sequence };
        // Parts vanish when the head is replaced; otherwise the snapshot is damaged.
        const same = (await bucket.get(key))?.revision === revision;
        if (same || attempt === READ_ATTEMPTS)
          throw new Error(`snapshot ${bucket.name}/${key} at ${head.sequence} is damaged`);
      }
    },
    write: async ({ state, sequence }, signal) => {
      const present = await readHead();
      if (present !== undefined && present.sequence >= sequence) return;
      const bytes = codec.encode(state);
      const id = `${sequence}-${randomUUID()}`;
      const parts = Math.ceil(bytes.length / PART_BYTES);
      for (let part = 0; part < parts && !signal.aborted; part += 1)
        await bucket.create(partKey(key, id, part), bytes.subarray(part * PART_BYTES, (part + 1) * PART_BYTES));
      if (signal.aborted) return;
      const head = Buffer.from(JSON.stringify({ sequence, id, parts, sha256: digest(bytes) } satisfies Head));
      if (revision === 0) await bucket.create(key, head);
      else await bucket.update(key, head, revision);
      await deleteOlder(bucket, key, sequence, signal);
    },
  };
}

const BYTES: Codec<Uint8Array> = { encode: (bytes) => bytes, decode: (bytes) => bytes };

async function readParts(bucket: Bucket<Uint8Array>, key: string, head: Head): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  for (let part = 0; part < head.parts; part += 1) {
    const entry = await bucket.get(partKey(key, head.id, part));
    if (entry === undefined) return undefined;
    parts.push(entry.value);
  }
  const bytes = Buffer.concat(parts);
  return digest(bytes) === head.sha256 ? bytes : undefined;
}

/**
 * Deletes the parts of older snapshots, also of those whose writer died before it had written a head. Parts of newer ones are another writer's: one that was
 * frozen before it came here may meet them.
 */
async function deleteOlder(
  bucket: Bucket<Uint8Array>,
  key: string,
  sequence: number,
  signal: AbortSignal,
): Promise<void> {
  for (const { key: part, revision } of await bucket.list(`${key}.>`)) {
    if (signal.aborted) return;
    if (sequenceOfPart(key, part) < sequence) await bucket.delete(part, revision);
  }
}

function sequenceOfPart(key: string, part: string): number {
  return Number.parseInt(part.slice(key.length + 1), 10);
}

function partKey(key: string, id: string, part: number): string {
  return `${key}.${id}.${part}`;
}

function digest(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function decode<State>(bucket: string, key: string, codec: Codec<State>, bytes: Uint8Array): State {
  try {
    return codec.decode(bytes);
  } catch (error) {
    throw new Error(`decoding snapshot ${bucket}/${key}`, { cause: error });
  }
}

function parseHead(bucket: string, key: string, bytes: Uint8Array): Head {
  try {
    const head: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (isHead(head)) return head;
  } catch (error) {
    throw new Error(`reading the head of snapshot ${bucket}/${key}`, { cause: error });
  }
  throw new Error(`the head of snapshot ${bucket}/${key} is not one`);
}

function isHead(value: unknown): value is Head {
  if (typeof value !== "object" || value === null) return false;
  const head: { sequence?: unknown; id?: unknown; parts?: unknown; sha256?: unknown } = value;
  return (
    typeof head.sequence === "number" &&
    typeof head.id === "string" &&
    typeof head.parts === "number" &&
    typeof head.sha256 === "string"
  );
}
