import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { formatLogLine, type LogSelection, parseLogLines, renderLogLine, selectLogLines } from "./log-lines.ts";

/** Size at which a log file is rotated. The previous rotated file is dropped, so a run of a container keeps at most two. */
export const LOG_FILE_BYTES = 10 * 1024 * 1024;
/** A longer line is split, as in containerd. */
const LINE_BYTES = 16 * 1024;

/**
 * The output of one run of a container. Writes are synchronous: a reader in this process sees every byte, and a process that writes faster than the disk waits.
 */
export type ContainerLog = {
  readonly path: string;
  append(stream: "stdout" | "stderr", chunk: Buffer): void;
  /** Ends the log and its followers. */
  close(): void;
  /** Number of rotations. */
  generation(): number;
  isClosed(): boolean;
  /** Calls the listener after each change, until the returned function is called. */
  onChange(listener: () => void): () => void;
};

export function openContainerLog(
  path: string,
  options: { readonly now: () => number; readonly fileBytes?: number },
): ContainerLog {
  const limit = options.fileBytes ?? LOG_FILE_BYTES;
  mkdirSync(dirname(path), { recursive: true });
  let file = openSync(path, "w", 0o600);
  let size = 0;
  let generation = 0;
  let isClosed = false;
  const rests = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  const listeners = new Set<() => void>();

  const write = (stream: "stdout" | "stderr", isComplete: boolean, text: Buffer): void => {
    if (size >= limit) {
      closeSync(file);
      renameSync(path, rotated(path));
      file = openSync(path, "w", 0o600);
      size = 0;
      generation += 1;
    }
    size += writeSync(file, formatLogLine({ atMs: options.now(), stream, isComplete }, text));
  };
  const changed = (): void => {
    for (const listener of listeners) listener();
  };

  return {
    path,
    append: (stream, chunk) => {
      if (isClosed) return;
      let rest = rests[stream].length === 0 ? chunk : Buffer.concat([rests[stream], chunk]);
      for (;;) {
        const end = rest.indexOf(10);
        const isLong = end < 0 ? rest.length >= LINE_BYTES : end > LINE_BYTES;
        if (end < 0 && !isLong) break;
        write(stream, !isLong, rest.subarray(0, isLong ? LINE_BYTES : end));
        rest = rest.subarray(isLong ? LINE_BYTES : end + 1);
      }
      rests[stream] = Buffer.from(rest);
      changed();
    },
    close: () => {
      if (isClosed) return;
      for (const stream of ["stdout", "stderr"] as const) {
        if (rests[stream].length > 0) write(stream, true, rests[stream]);
      }
      isClosed = true;
      closeSync(file);
      changed();
    },
    generation: () => generation,
    isClosed: () => isClosed,
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export type LogRequest = LogSelection & { readonly follow?: boolean; readonly limitBytes?: number };

/**
 * Yields the requested part of a log, in pieces. With `follow` it continues until the run has ended, the signal aborts, or limitBytes are reached. `log` is the
 * open log of a run that this process writes, or the path of another one.
 */
export async function* readContainerLog(
  log: ContainerLog | string,
  request: LogRequest,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const path = typeof log === "string" ? log : log.path;
  const open = typeof log === "string" ? undefined : log;
  let left = request.limitBytes ?? Infinity;
  let midLine = false;
  const render = (lines: ReturnType<typeof selectLogLines>): Buffer => {
    const parts = lines.map((line) => {
      const part = renderLogLine(line, midLine, request.timestamps ?? false);
      midLine = !line.isComplete;
      return part;
    });
    const bytes = Buffer.concat(parts).subarray(0, left);
    left -= bytes.length;
    return bytes;
  };

  const cursor = logCursor(path, open);
  yield render(selectLogLines(cursor.read(), request));
  if (open === undefined || request.follow !== true) return;
  let change = Promise.withResolvers<undefined>();
  const wake = (): void => change.resolve(undefined);
  const unsubscribe = open.onChange(wake);
  signal.addEventListener("abort", wake);
  try {
    while (left > 0 && !signal.aborted) {
      const isLast = open.isClosed();
      const bytes = render(cursor.read());
      if (bytes.length > 0) yield bytes;
      else if (isLast) return;
      else await change.promise;
      change = Promise.withResolvers();
    }
  } finally {
    unsubscribe();
    signal.removeEventListener("abort", wake);
  }
}

/** The content of the present file, without times: enough for the last words of a container. */
export function readLogTail(log: ContainerLog): Buffer {
  return Buffer.concat(parseLogLines(readFrom(log.path, 0)).lines.map((line) => renderLogLine(line, false, false)));
}

/** Continues to read from its position, across one change of files. A reader that is slower than two changes loses the dropped part. */
function logCursor(
  path: string,
  open: ContainerLog | undefined,
): { read: () => ReturnType<typeof parseLogLines>["lines"] } {
  let generation = open?.generation() ?? 0;
  let offset = 0;
  let first = true;
  return {
    read: () => {
      const now = open?.generation() ?? 0;
      const pieces: Buffer[] = [];
      if (first) pieces.push(readFrom(rotated(path), 0));
      else if (now === generation + 1) pieces.push(readFrom(rotated(path), offset));
      else if (now > generation) pieces.push(readFrom(rotated(path), 0));
      if (now !== generation) offset = 0;
      const current = readFrom(path, offset);
      pieces.push(current);
      first = false;
      generation = now;
      const parsed = parseLogLines(Buffer.concat(pieces));
      offset += current.length;
      return parsed.lines;
    },
  };
}

function readFrom(path: string, offset: number): Buffer {
  if (!existsSync(path)) return Buffer.alloc(0);
  if (offset === 0) return readFileSync(path);
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(Math.max(0, statSync(path).size - offset));
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, offset));
  } finally {
    closeSync(file);
  }
}

function rotated(path: string): string {
  return `${path}.1`;
}
