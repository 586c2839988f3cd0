import { makeDeadline } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import type { LogRange } from "./pod-log.ts";

/** Logs that clients follow. Each is read from the API server once, however often clients poll, because the API server supports no offsets. */
export type LogFollowers = Disposable & {
  /**
   * Returns the bytes from the offset. Resolves as soon as some exist, without any after `waitMs`, and immediately when the log has ended. Rejects with
   * FaultError limit_exceeded when too many logs are followed.
   */
  read(log: FollowedLog, range: LogRange, waitMs: number, signal: AbortSignal): Promise<FollowedPart>;
  /** Whether the bytes at the offset can still be read although the pod may be gone: true if a client has recently read up to the offset. */
  keeps(log: FollowedLog, offset: number): boolean;
};

export type FollowedLog = {
  /** Absent if all pods are in one namespace. */
  readonly namespace?: string;
  readonly pod: string;
  readonly container: string;
  /** Distinguishes the logs of pods that had the same name, such as a recreated pod. */
  readonly run?: string;
};

/** `isOver`: no bytes follow, because the container has ended. */
type FollowedPart = { readonly bytes: Uint8Array; readonly isOver: boolean };

export type FollowLimits = {
  /** Maximum concurrently open streams. */
  readonly maxStreams: number;
  /** A stream that is not read for this time is closed. */
  readonly idleMs: number;
};

/** Opens the whole log as a stream that ends with the container; throws FaultError. */
type OpenLogStream = (log: FollowedLog, signal: AbortSignal) => AsyncIterable<Uint8Array>;

/** An open stream that no call reads at the moment, and its key. */
type Idle = { readonly key: string; readonly reader: LogReader; readonly timer: NodeJS.Timeout };

/**
 * Keeps each stream for the call that continues at the end of the last answer. A call for another offset, such as after a lost answer or from another replica,
 * opens a separate stream and reads up to the offset.
 */
export function followLogs(open: OpenLogStream, limits: FollowLimits): LogFollowers {
  const idle = new Set<Idle>();
  let inUse = 0;

  const take = (kept: Idle): LogReader => {
    clearTimeout(kept.timer);
    idle.delete(kept);
    return kept.reader;
  };
  const keep = (key: string, reader: LogReader): void => {
    const timer = setTimeout(() => {
      take(kept).close();
    }, limits.idleMs);
    timer.unref();
    const kept = { key, reader, timer };
    idle.add(kept);
  };
  /** Opens a stream, and closes the one that has been idle for longest if there are too many. */
  const openNew = (log: FollowedLog, offset: number): LogReader => {
    if (inUse + idle.size >= limits.maxStreams) {
      const [oldest] = idle;
      if (oldest === undefined) {
        const what = "number of followed logs";
        return throwFault({ code: "limit_exceeded", what, limit: limits.maxStreams, retryAfterMs: RETRY_MS });
      }
      take(oldest).close();
    }
    return new LogReader((closed) => open(log, closed), offset);
  };

  const findIdle = (key: string): Idle | undefined => [...idle].find((each) => each.key === key);

  return {
    keeps: (log, offset) => findIdle(buildStreamKey(log, offset)) !== undefined,
    read: async (log, { offset, limitBytes }, waitMs, signal) => {
      const kept = findIdle(buildStreamKey(log, offset));
      const reader = kept === undefined ? openNew(log, offset) : take(kept);
      inUse += 1;
      using over = makeDeadline(waitMs, [signal]);
      try {
        const bytes = await reader.next(limitBytes, over.signal);
        if (reader.isOverFor(limits.idleMs)) reader.close();
        else keep(buildStreamKey(log, offset + bytes.length), reader);
        return { bytes, isOver: reader.isOverFor(0) };
      } catch (error) {
        reader.close();
        throw error;
      } finally {
        inUse -= 1;
      }
    },
    [Symbol.dispose]: () => {
      for (const kept of [...idle]) take(kept).close();
    },
  };
}

function buildStreamKey({ namespace = "", pod, container, run = "" }: FollowedLog, offset: number): string {
  return `${namespace}/${pod}/${container}/${run}/${offset}`;
}

/** Retry hint for a client that finds all streams in use. */
const RETRY_MS = 1000;
const NOTHING = new Uint8Array();

/** One stream and its position. It reads only on demand, so unread data stays at the server. */
class LogReader {
  readonly #closed = new AbortController();
  readonly #chunks: AsyncIterator<Uint8Array>;
  #coming: Promise<IteratorResult<Uint8Array, unknown>> | undefined;
  #rest: Uint8Array = NOTHING;
  /** Number of bytes before the requested offset. */
  #skip: number;
  #overAtMs = Number.POSITIVE_INFINITY;

  constructor(open: (closed: AbortSignal) => AsyncIterable<Uint8Array>, offset: number) {
    this.#chunks = open(this.#closed.signal)[Symbol.asyncIterator]();
    this.#skip = offset;
  }

  close(): void {
    this.#closed.abort();
  }

  /** Whether the end was reached this long ago and all bytes were returned. A broken connection can look like the end, so the log is then reopened. */
  isOverFor(ms: number): boolean {
    return this.#rest.length === 0 && performance.now() - this.#overAtMs >= ms;
  }

  async next(limitBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    while (this.#rest.length === 0 && this.#overAtMs === Number.POSITIVE_INFINITY) {
      const chunk = await untilAborted(this.#read(), signal);
      if (chunk === undefined) return NOTHING;
      this.#coming = undefined;
      if (chunk.done === true) this.#overAtMs = performance.now();
      else this.#pass(chunk.value);
    }
    const bytes = this.#rest.subarray(0, limitBytes);
    this.#rest = this.#rest.subarray(bytes.length);
    return bytes;
  }

  /** Continues a read that an earlier call began but did not await. */
  #read(): Promise<IteratorResult<Uint8Array, unknown>> {
    if (this.#coming === undefined) {
      this.#coming = this.#chunks.next();
      // The read may fail while no call waits; the next call receives the error.
      this.#coming.catch(() => undefined);
    }
    return this.#coming;
  }

  #pass(chunk: Uint8Array): void {
    const skipped = Math.min(this.#skip, chunk.length);
    this.#skip -= skipped;
    this.#rest = chunk.subarray(skipped);
  }
}

/** Resolves with undefined if the signal is aborted first; the work continues. */
async function untilAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result | undefined> {
  if (signal.aborted) return undefined;
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const stop = (): void => {
    resolve(undefined);
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
