import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { claimForOwner } from "../kubelet/claim-directory.ts";
import type { JsonObject } from "./json.ts";
import { decodeRecord, encodeRecord, type JournalRecord } from "./journal-record.ts";

export type JournalEntry = { readonly bucket: string; readonly key: string; readonly object: JsonObject };

/**
 * The store's state in one file: a snapshot, then every change.
 *
 * Each change is passed to the operating system before any client receives it, so that no end of the process loses an acknowledged write. Only a snapshot and
 * the end wait for the disk (fsync). After a power loss the last seconds may be missing, and the server starts with an earlier state.
 */
export type Journal = Disposable & {
  /** The records of earlier lives, oldest first; returned once. */
  replay(): Iterable<JournalRecord>;
  /** Appends a record; throws, and leaves nothing of it, if it cannot be written. */
  append(record: JournalRecord): void;
  /** Writes a new snapshot once the changes after the last one are large enough. */
  compactWhenLarge(revision: number, everything: () => Iterable<JournalEntry>): void;
};

export type JournalOptions = {
  /** Made when it is missing, mode 0700. It belongs to one process at a time. */
  readonly directory: string;
  /** Minimum size of the changes before a new snapshot; at least the size of the previous snapshot. Default 16 MiB. */
  readonly compactFromBytes?: number;
  /** Receives the failure to write a snapshot; changes continue in the old file. */
  readonly onProblem: (error: unknown) => void;
};

const COMPACT_FROM_BYTES = 16 * 1024 * 1024;
/** Bytes of one write. */
const CHUNK_BYTES = 1024 * 1024;

/** Opens the journal of a directory, or begins one. Throws for a file that is damaged in its middle: the rest would be guesswork. */
export function openJournal({ directory, compactFromBytes, onProblem }: JournalOptions): Journal {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const claim = claimForOwner("API server", directory);
  const file = join(directory, "journal");
  const { bytes, snapshotBytes, ...read } = readJournal(file);
  let { records } = read;
  let descriptor = openSync(file, "a", 0o600);
  // A truncated write at the end was never acknowledged.
  ftruncateSync(descriptor, bytes);
  let size = bytes;
  let threshold = Math.max(compactFromBytes ?? COMPACT_FROM_BYTES, snapshotBytes);
  let snapshotSize = snapshotBytes;
  let broken: unknown;

  const compact = (revision: number, everything: () => Iterable<JournalEntry>): void => {
    const written = writeSnapshot(directory, file, revision, everything());
    closeSync(descriptor);
    descriptor = openSync(file, "a", 0o600);
    size = written;
    snapshotSize = written;
    threshold = Math.max(compactFromBytes ?? COMPACT_FROM_BYTES, written);
  };
  return {
    replay: () => {
      const once = records;
      records = [];
      return once;
    },
    append: (record) => {
      if (broken !== undefined) throw new Error("the journal cannot be written any more", { cause: broken });
      const line = encodeRecord(record);
      try {
        writeAll(descriptor, line);
        size += line.length;
      } catch (error) {
        try {
          ftruncateSync(descriptor, size);
        } catch (worse) {
          broken = worse;
        }
        throw error;
      }
    },
    compactWhenLarge: (revision, everything) => {
      if (size - snapshotSize < threshold) return;
      try {
        compact(revision, everything);
      } catch (error) {
        // Retry after the same number of changes again.
        threshold += compactFromBytes ?? COMPACT_FROM_BYTES;
        onProblem(error);
      }
    },
    [Symbol.dispose]: () => {
      fsyncSync(descriptor);
      closeSync(descriptor);
      claim[Symbol.dispose]();
    },
  };
}

type Replayed = { readonly records: readonly JournalRecord[]; readonly bytes: number; readonly snapshotBytes: number };

function readJournal(file: string): Replayed {
  if (!existsSync(file)) return { records: [], bytes: 0, snapshotBytes: 0 };
  const content = readFileSync(file);
  const records: JournalRecord[] = [];
  let start = 0;
  let snapshotBytes = 0;
  for (;;) {
    const end = content.indexOf("\n", start);
    if (end < 0) return { records, bytes: start, snapshotBytes };
    const record = decodeRecord(content.subarray(start, end));
    if (record === undefined) {
      throw new Error(`${file} is damaged at byte ${start}; remove its directory to begin with nothing`);
    }
    records.push(record);
    start = end + 1;
    if (record.do === "keep") snapshotBytes = start;
  }
}

/** Writes beside the file first, so that a complete one exists at each moment. Returns its size. */
function writeSnapshot(directory: string, file: string, revision: number, everything: Iterable<JournalEntry>): number {
  const draft = `${file}.new`;
  rmSync(draft, { force: true });
  const descriptor = openSync(draft, "w", 0o600);
  let size = 0;
  let chunks: Buffer[] = [];
  let waiting = 0;
  const flush = (): void => {
    writeAll(descriptor, Buffer.concat(chunks));
    chunks = [];
    waiting = 0;
  };
  const write = (record: JournalRecord): void => {
    const bytes = encodeRecord(record);
    chunks.push(bytes);
    waiting += bytes.length;
    size += bytes.length;
    if (waiting > CHUNK_BYTES) flush();
  };
  try {
    for (const kept of everything) write({ do: "keep", ...kept });
    write({ do: "forget", revision });
    flush();
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(draft, file);
  syncDirectory(directory);
  return size;
}

function syncDirectory(directory: string): void {
  const descriptor = openSync(directory, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function writeAll(descriptor: number, bytes: Buffer): void {
  let written = 0;
  while (written < bytes.length) written += writeSync(descriptor, bytes, written);
}
