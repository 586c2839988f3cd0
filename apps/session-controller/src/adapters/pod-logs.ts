import type { KubeConfig } from "@kubernetes/client-node";
import { FaultError, type Fault } from "@muster/faults";
import { openGet, type Query } from "@muster/kube";
import { faultOrThrow } from "./pods.ts";

export type LogTail = {
  readonly bytes: Uint8Array;
  /** Bytes before the tail that were read and let go. */
  readonly omittedBytes: number;
  /** Why the end of the log is missing; undefined when it is all there. */
  readonly broken: Fault | undefined;
};

/** Logs of containers, read from the API server as streams. All reject with FaultError. */
export type PodLogs = {
  /** The last bytes of the whole log, or of what had come of it when the signal or a failure ended the reading. Rejects when nothing had. */
  readTail(pod: string, container: string, limitBytes: number, signal: AbortSignal): Promise<LogTail>;
  /** The last lines alone, each whole unless bytes are omitted: for a log that broke off before its end. Rejects like `readTail`. */
  readEnd(pod: string, container: string, range: EndRange, signal: AbortSignal): Promise<LogTail>;
  /** The whole log, and what is written after that until the container ends or the signal comes. */
  follow(pod: string, container: string, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** What is there from the offset on, at most so many bytes. */
  readRange(pod: string, container: string, range: LogRange, signal: AbortSignal): Promise<Uint8Array>;
};

export type LogRange = { readonly offset: number; readonly limitBytes: number };

export type EndRange = { readonly lines: number; readonly limitBytes: number };

type Bytes = AsyncIterable<Uint8Array>;

export function kubePodLogs(config: KubeConfig, namespace: string): PodLogs {
  const open = async (pod: string, container: string, query: Query, signal: AbortSignal): Promise<Bytes> =>
    openGet(config, `/api/v1/namespaces/${namespace}/pods/${pod}/log`, { container, ...query }, signal);
  return {
    readTail: (pod, container, limitBytes, signal) =>
      raising(`reading the log of ${pod}/${container}`, async () =>
        tailOf(await open(pod, container, {}, signal), limitBytes),
      ),
    readEnd: (pod, container, { lines, limitBytes }, signal) =>
      raising(`reading the end of the log of ${pod}/${container}`, async () =>
        tailOf(await open(pod, container, { tailLines: lines }, signal), limitBytes),
      ),
    follow: (pod, container, signal) =>
      followed(`following the log of ${pod}/${container}`, () => open(pod, container, { follow: true }, signal)),
    readRange: (pod, container, { offset, limitBytes }, signal) =>
      raising(`reading the log of ${pod}/${container}`, async () =>
        // The API server knows no offset; it is asked for the beginning up to where the range ends.
        rangeOf(await open(pod, container, { limitBytes: offset + limitBytes }, signal), offset, limitBytes),
      ),
  };
}

/** Exported for its tests. */
export async function tailOf(stream: AsyncIterable<Uint8Array>, limitBytes: number): Promise<LogTail> {
  const kept: Uint8Array[] = [];
  let keptBytes = 0;
  let omittedBytes = 0;
  let broken: Fault | undefined;
  try {
    for await (const chunk of stream) {
      kept.push(chunk);
      keptBytes += chunk.length;
      for (let first = kept[0]; first !== undefined && keptBytes - first.length >= limitBytes; first = kept[0]) {
        kept.shift();
        keptBytes -= first.length;
        omittedBytes += first.length;
      }
    }
  } catch (error) {
    if (keptBytes === 0) throw error;
    broken = faultOrThrow(error);
  }
  const bytes = Buffer.concat(kept);
  const excess = Math.max(0, bytes.length - limitBytes);
  return { bytes: bytes.subarray(excess), omittedBytes: omittedBytes + excess, broken };
}

async function rangeOf(stream: Bytes, offset: number, limitBytes: number): Promise<Uint8Array> {
  const kept: Uint8Array[] = [];
  let position = 0;
  for await (const chunk of stream) {
    const from = Math.max(0, offset - position);
    const to = Math.min(chunk.length, offset + limitBytes - position);
    if (to > from) kept.push(chunk.subarray(from, to));
    position += chunk.length;
    if (position >= offset + limitBytes) break;
  }
  return Buffer.concat(kept);
}

async function* followed(doing: string, open: () => Promise<Bytes>): Bytes {
  try {
    yield* await open();
  } catch (error) {
    throw new FaultError(faultOrThrow(error), { cause: error, doing });
  }
}

async function raising<Result>(doing: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw new FaultError(faultOrThrow(error), { cause: error, doing });
  }
}
