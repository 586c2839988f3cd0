import { createHash, randomUUID } from "node:crypto";
import type { NatsConnection } from "@nats-io/nats-core";
import { openBucket, type Bucket } from "./bucket.ts";
import type { Codec } from "./codec.ts";

/** The whole state at one sequence of the log. */
export type Snapshot<State> = { readonly state: State; readonly sequence: number };

/** Encodes and decodes a large state in small steps, because a process that blocks for seconds cannot renew its lock. */
export type SnapshotCodec<State> = {
  /** Pieces whose concatenation encodes the state. Other work runs between two pieces. */
  pieces(state: State): Iterable<Uint8Array>;
  /** Accepts the same bytes, split differently. Throws on malformed bytes. */
  assemble(pieces: readonly Uint8Array[]): Promise<State>;
};

export type Snapshots<State> = {
  /** Reads the snapshot; undefined if none exists. Rejects with a plain Error for a damaged one. */
  read(): Promise<Snapshot<State> | undefined>;
  /**
   * Replaces an older snapshot; otherwise does nothing. Rejects with conflict on a concurrent write. Stops at an abort of the signal: the next write removes
   * the incomplete parts.
   */
  write(snapshot: Snapshot<State>, signal: AbortSignal): Promise<void>;
};

/** Describes a snapshot. It may be larger than a message, so its bytes are stored in separate parts. */
type Head = { readonly sequence: number; readonly id: string; readonly parts: number; readonly sha256: string };

const PART_BYTES = 256 * 1024;
const READ_ATTEMPTS = 5;
/** Maximum concurrent reads of parts, so that they share round trips. */
const MAX_READS_IN_FLIGHT = 8;

export async function openSnapshots<State>(
  connection: NatsConnection,
  config: { readonly bucket: string; readonly key: string; readonly codec: Codec<State> | SnapshotCodec<State> },
): Promise<Snapshots<State>> {
  const { key } = config;
  const codec = "pieces" in config.codec ? config.codec : inOnePiece(config.codec);
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
        const parts = await readParts(bucket, key, head);
        if (parts !== undefined)
          return { state: await decode(bucket.name, key, codec, parts), sequence: head.sequence };
        // Parts disappear when the head is replaced; otherwise the snapshot is damaged.
        const same = (await bucket.get(key))?.revision === revision;
        if (same || attempt === READ_ATTEMPTS)
          throw new Error(`snapshot ${bucket.name}/${key} at ${head.sequence} is damaged`);
      }
    },
    write: async ({ state, sequence }, signal) => {
      const present = await readHead();
      if (present !== undefined && present.sequence >= sequence) return;
      const id = `${sequence}-${randomUUID()}`;
      const hash = createHash("sha256");
      let parts = 0;
      for (const bytes of cutInto(PART_BYTES, codec.pieces(state))) {
        if (signal.aborted) return;
        hash.update(bytes);
        await bucket.create(partKey(key, id, parts), bytes);
        parts += 1;
      }
      if (signal.aborted) return;
      const head = Buffer.from(JSON.stringify({ sequence, id, parts, sha256: hash.digest("hex") } satisfies Head));
      if (revision === 0) await bucket.create(key, head);
      else await bucket.update(key, head, revision);
      await deleteOlder(bucket, key, sequence, signal);
    },
  };
}

const BYTES: Codec<Uint8Array> = { encode: (bytes) => bytes, decode: (bytes) => bytes };

function inOnePiece<State>(codec: Codec<State>): SnapshotCodec<State> {
  return {
    pieces: (state) => [codec.encode(state)],
    assemble: (pieces) => Promise.resolve(codec.decode(Buffer.concat(pieces))),
  };
}

/** Splits the bytes into parts of one size; the last one may be smaller. */
function* cutInto(partBytes: number, pieces: Iterable<Uint8Array>): Generator<Uint8Array> {
  let gathered: Uint8Array[] = [];
  let room = partBytes;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      const taken = piece.subarray(at, at + room);
      gathered.push(taken);
      at += taken.length;
      room -= taken.length;
      if (room > 0) continue;
      yield Buffer.concat(gathered);
      gathered = [];
      room = partBytes;
    }
  }
  if (gathered.length > 0) yield Buffer.concat(gathered);
}

async function readParts(
  bucket: Bucket<Uint8Array>,
  key: string,
  head: Head,
): Promise<readonly Uint8Array[] | undefined> {
  const parts: Uint8Array[] = [];
  const hash = createHash("sha256");
  while (parts.length < head.parts) {
    const next = Array.from({ length: Math.min(MAX_READS_IN_FLIGHT, head.parts - parts.length) }, (_, index) =>
      bucket.get(partKey(key, head.id, parts.length + index)),
    );
    for (const entry of await Promise.all(next)) {
      if (entry === undefined) return undefined;
      parts.push(entry.value);
      hash.update(entry.value);
    }
  }
  return hash.digest("hex") === head.sha256 ? parts : undefined;
}

/**
 * Deletes the parts of older snapshots, also those whose writer died before it wrote a head. Keeps parts of newer ones, which a previously frozen writer may
 * find: they belong to another writer.
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

async function decode<State>(
  bucket: string,
  key: string,
  codec: SnapshotCodec<State>,
  parts: readonly Uint8Array[],
): Promise<State> {
  try {
    return await codec.assemble(parts);
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
