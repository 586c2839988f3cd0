import type { KubeConfig } from "@kubernetes/client-node";
import type { Fault } from "@muster/faults";
import { openPodLog, readLogRange, requireKubeFault, type LogRange } from "@muster/kube";

export type LogTail = {
  readonly bytes: Uint8Array;
  /** Bytes before the tail that were read and dropped. */
  readonly omittedBytes: number;
  /** The fault that cut off the end of the log; undefined if the log is complete. */
  readonly broken: Fault | undefined;
};

/** Logs of containers, read from the API server as streams. Each method rejects with FaultError. */
export type PodLogs = {
  /** Reads the last bytes of the log, or of the part that was read before the signal or a failure. Rejects if no byte was read. */
  readTail(pod: string, container: string, limitBytes: number, signal: AbortSignal): Promise<LogTail>;
  /** Reads the last lines of a log whose earlier read failed. The lines are complete unless bytes are omitted. Rejects as `readTail` does. */
  readEnd(pod: string, container: string, range: EndRange, signal: AbortSignal): Promise<LogTail>;
  /** Streams the log and its growth, until the container ends or the signal is aborted. */
  follow(pod: string, container: string, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Reads the log from the offset, at most this many bytes. */
  readRange(pod: string, container: string, range: LogRange, signal: AbortSignal): Promise<Uint8Array>;
};

type EndRange = { readonly lines: number; readonly limitBytes: number };

export function makePodLogs(config: KubeConfig, namespace: string): PodLogs {
  const open = (pod: string, container: string, query: Parameters<typeof openPodLog>[2], signal: AbortSignal) =>
    openPodLog(config, { namespace, pod, container }, query, signal);
  return {
    readTail: (pod, container, limitBytes, signal) => makeTail(open(pod, container, {}, signal), limitBytes),
    readEnd: (pod, container, { lines, limitBytes }, signal) =>
      makeTail(open(pod, container, { tailLines: lines }, signal), limitBytes),
    follow: (pod, container, signal) => open(pod, container, { follow: true }, signal),
    readRange: (pod, container, range, signal) => readLogRange(config, { namespace, pod, container }, range, signal),
  };
}

/** Reads the stream and keeps its last `limitBytes` bytes. Exported for tests. */
export async function makeTail(stream: AsyncIterable<Uint8Array>, limitBytes: number): Promise<LogTail> {
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
    broken = requireKubeFault(error);
  }
  const bytes = Buffer.concat(kept);
  const excess = Math.max(0, bytes.length - limitBytes);
  return { bytes: bytes.subarray(excess), omittedBytes: omittedBytes + excess, broken };
}
