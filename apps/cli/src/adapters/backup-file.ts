import { createHash } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import type { StreamHead } from "./backup-order.ts";

/**
 * The file is a sequence of chunks, each after its length in four bytes. First comes the format; then, for each stream, its head, its bytes in chunks, an empty
 * chunk, and a checksum of head and bytes; last the number of streams.
 */
const FORM = "muster-backup/2";
const CHECK_SUM = "sha256";
const LENGTH_BYTES = 4;
/** The limit exceeds the largest message that NATS sends. */
const MAX_PIECE_BYTES = 8 * 1024 * 1024;
const OWNER_ONLY = 0o600;

export type BackupWriter = AsyncDisposable & {
  readonly head: (head: StreamHead) => Promise<void>;
  readonly bytes: (bytes: Uint8Array) => Promise<void>;
  readonly endStream: () => Promise<void>;
  /** Marks the current end of the file; `rewind` moves the position back to it. */
  readonly mark: () => { readonly rewind: () => void };
  /** Renames the file to its final name, so that every file of that name is complete. */
  readonly finish: () => Promise<void>;
};

/**
 * Writes to a temporary file beside `path` until `finish`; disposal before that removes it. Rejects with CommandError if the file exists or cannot be created,
 * or if the disk is full.
 */
export async function writeBackup(path: string, atMs: number): Promise<BackupWriter> {
  await refuseExisting(path);
  const part = `${path}.part`;
  const file = await openFile(part, "wx");
  let at = 0;
  let count = 0;
  let finished = false;
  let sum = createHash(CHECK_SUM);
  const write = async (bytes: Uint8Array): Promise<void> => {
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32BE(bytes.length);
    for (const piece of [length, bytes]) {
      await writeAll(file, piece, at).catch(failed(part));
      at += piece.length;
    }
  };
  await write(json({ form: FORM, at: new Date(atMs).toISOString() }));
  return {
    head: async (head) => {
      const bytes = json(head);
      sum = createHash(CHECK_SUM).update(bytes);
      await write(bytes);
      count += 1;
    },
    bytes: async (bytes) => {
      sum.update(bytes);
      await write(bytes);
    },
    endStream: async () => {
      await write(new Uint8Array());
      await write(sum.digest());
    },
    mark: () => {
      const before = { at, count };
      return {
        rewind: () => {
          ({ at, count } = before);
        },
      };
    },
    finish: async () => {
      await write(json({ streams: count }));
      await file.truncate(at).catch(failed(part));
      await file.sync().catch(failed(part));
      await rename(part, path).catch(failed(path));
      finished = true;
      await syncFolder(path).catch(failed(path));
    },
    [Symbol.asyncDispose]: async () => {
      await file.close();
      if (!finished) await rm(part, { force: true });
    },
  };
}

export type BackupReader = AsyncDisposable & {
  /** The time at which the backup began, in ISO 8601. */
  readonly at: string;
  /** Yields each stream. The caller reads all bytes of a stream before the next one. Rejects with CommandError if the file is damaged or incomplete. */
  readonly streams: () => AsyncIterable<{ readonly head: StreamHead; readonly chunks: AsyncIterable<Uint8Array> }>;
};

/** Rejects with CommandError when the file is missing or is no backup. */
export async function readBackup(path: string): Promise<BackupReader> {
  const file = await openFile(path, "r");
  let at = 0;
  const read = async (length: number): Promise<Buffer> => {
    const bytes = Buffer.alloc(length);
    const { bytesRead } = await file.read(bytes, 0, length, at).catch(failed(path));
    if (bytesRead < length) throw new CommandError(EXIT.usage, `${path} ends in the middle: it is no complete backup`);
    at += length;
    return bytes;
  };
  const piece = async (): Promise<Buffer> => {
    const length = (await read(LENGTH_BYTES)).readUInt32BE();
    if (length > MAX_PIECE_BYTES) throw new CommandError(EXIT.usage, `${path} is no backup`);
    return read(length);
  };
  async function* chunks(stream: string, head: Uint8Array): AsyncGenerator<Uint8Array> {
    const sum = createHash(CHECK_SUM).update(head);
    for (let bytes = await piece(); bytes.length > 0; bytes = await piece()) {
      sum.update(bytes);
      yield bytes;
    }
    if (!sum.digest().equals(await piece()))
      throw new CommandError(EXIT.usage, `${path} is damaged: ${stream} is not what was copied`);
  }
  try {
    const first = parsed(path, await piece());
    if (!("form" in first) || first.form !== FORM || !("at" in first))
      throw new CommandError(EXIT.usage, `${path} is no backup`);
    return {
      at: String(first.at),
      streams: async function* () {
        for (let count = 0; ; count += 1) {
          const bytes = await piece();
          const next = parsed(path, bytes);
          if (isHead(next)) yield { head: next, chunks: chunks(next.config.name, bytes) };
          else if ("streams" in next && next.streams === count) return;
          else throw new CommandError(EXIT.usage, `${path} is damaged after ${count} streams`);
        }
      },
      [Symbol.asyncDispose]: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Writes all bytes, because a single write may be partial. */
async function writeAll(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done);
    done += bytesWritten;
  }
}

/** The name of a file is durable once its folder is synced. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** A full or failing disk is no defect of the command. */
function failed(path: string): (cause: unknown) => never {
  return (cause) => {
    throw new CommandError(EXIT.failed, `${path}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  };
}

function isHead(value: object): value is StreamHead {
  if (!("config" in value) || !("state" in value)) return false;
  const { config } = value;
  return typeof config === "object" && config !== null && "name" in config && typeof config.name === "string";
}

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function parsed(path: string, bytes: Buffer): object {
  try {
    const value: unknown = JSON.parse(bytes.toString("utf8"));
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // The error below reports it.
  }
  throw new CommandError(EXIT.usage, `${path} is no backup`);
}

async function refuseExisting(path: string): Promise<void> {
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return;
  await file.close();
  throw new CommandError(EXIT.usage, `${path} exists already`, { hint: "a backup never replaces another one" });
}

async function openFile(path: string, flags: "r" | "wx"): Promise<FileHandle> {
  let file: FileHandle;
  try {
    file = await open(path, flags, OWNER_ONLY);
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "EEXIST")
      throw new CommandError(EXIT.usage, `${path} exists already`, {
        hint: "another backup writes it now; remove it if that backup was interrupted",
        cause,
      });
    throw new CommandError(EXIT.usage, cause instanceof Error ? cause.message : String(cause), { cause });
  }
  // Opening a folder succeeds, and only reading it fails.
  if (!(await file.stat()).isDirectory()) return file;
  await file.close();
  throw new CommandError(EXIT.usage, `${path} is a folder`);
}
