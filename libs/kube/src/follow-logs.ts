import { deadline } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import type { LogRange } from "./pod-log.ts";

/** Logs that somebody follows. Each is read from the API server once, however often is asked for what came next: the API server knows no offsets. */
export type LogFollowers = Disposable & {
  /**
   * What comes at the offset: as soon as there is something, or nothing after so long, and at once when the log is over. Rejects with FaultError; limit_exceeded
   * when too many logs are followed.
   */
  read(log: FollowedLog, range: LogRange, waitMs: number, signal: AbortSignal): Promise<FollowedPart>;
  /** Whether what comes at the offset can still be read, even where the pod is gone by now: somebody has read up to there a short while ago. */
  keeps(log: FollowedLog, offset: number): boolean;
};

export type FollowedLog = {
  readonly pod: string;
  readonly container: string;
  /** Tells logs of one name apart that follow one another, as where a pod is made anew. */
  readonly run?: string;
};

/** `isOver`: nothing comes after the bytes, because the container has ended. */
export type FollowedPart = { readonly bytes: Uint8Array; readonly isOver: boolean };

export type FollowLimits = {
  /** Streams that are open at once. */
  readonly streamsMost: number;
  /** A stream that nobody has asked for so long is closed. */
  readonly idleMs: number;
};

/** Opens the whole log as a stream that goes on with what is written, until the container ends; throws FaultError. */
export type OpenLog = (log: FollowedLog, signal: AbortSignal) => AsyncIterable<Uint8Array>;

/** A stream that nobody waits for just now, and the place that it has come to. */
type Idle = { readonly key: string; readonly reader: LogReader; readonly timer: NodeJS.Timeout };

/**
 * Keeps each stream for whoever asks next for what comes after the last answer. One who asks for another place, as after an answer that was lost or from another
 * replica, gets a stream of its own, which is read up to there.
 */
export function followLogs(open: OpenLog, limits: FollowLimits): LogFollowers {
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
  /** In the place of the one that was asked for longest ago, when there are too many. */
  const openNew = (log: FollowedLog, offset: number): LogReader => {
    if (inUse + idle.size >= limits.streamsMost) {
      const [oldest] = idle;
      if (oldest === undefined) {
        const what = "number of followed logs";
        return throwFault({ code: "limit_exceeded", what, limit: limits.streamsMost, retryAfterMs: RETRY_MS });
      }
      take(oldest).close();
    }
    return new LogReader((closed) => open(log, closed), offset);
  };

  const findIdle = (key: string): Idle | undefined => [...idle].find((each) => each.key === key);

  return {
    keeps: (log, offset) => findIdle(keyOf(log, offset)) !== undefined,
    read: async (log, { offset, limitBytes }, waitMs, signal) => {
      const kept = findIdle(keyOf(log, offset));
      const reader = kept === undefined ? openNew(log, offset) : take(kept);
      inUse += 1;
      using over = deadline(waitMs, [signal]);
      try {
        const bytes = await reader.next(limitBytes, over.signal);
        if (reader.isOverFor(limits.idleMs)) reader.close();
        else keep(keyOf(log, offset + bytes.length), reader);
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

function keyOf({ pod, container, run = "" }: FollowedLog, offset: number): string {
  return `${pod}/${container}/${run}/${offset}`;
}

/** Whoever finds all streams in use may try again after this time. */
const RETRY_MS = 1000;
const NOTHING = new Uint8Array();

/** One stream, and how far it was read. It is read only when somebody asks, so that what nobody wants stays where it is. */
class LogReader {
  readonly #closed = new AbortController();
  readonly #chunks: AsyncIterator<Uint8Array>;
  #coming: Promise<IteratorResult<Uint8Array, unknown>> | undefined;
  #rest: Uint8Array = NOTHING;
  /** Bytes before the place that is wanted. */
  #skip: number;
  #overAtMs = Number.POSITIVE_INFINITY;

  constructor(open: (closed: AbortSignal) => AsyncIterable<Uint8Array>, offset: number) {
    this.#chunks = open(this.#closed.signal)[Symbol.asyncIterator]();
    this.#skip = offset;
  }

  close(): void {
    this.#closed.abort();
  }

  /** Its end was seen so long ago, and all before it was handed out. It may also end because something on the way has cut it, so after a while it is opened again. */
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

  /** What was asked for earlier and has not come yet is still what comes next. */
  #read(): Promise<IteratorResult<Uint8Array, unknown>> {
    if (this.#coming === undefined) {
      this.#coming = this.#chunks.next();
      // Nobody may be waiting when it breaks; whoever asks next is told.
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

/** Undefined when the signal came first; the work goes on. */
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
