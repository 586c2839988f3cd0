import { forEachSome, pause, type TakeTurn } from "@muster/backoff";
import { describeFault, findFault, isRetryable, throwFault } from "@muster/faults";
import { MAIN_CONTAINER } from "@muster/session-limits";
import { MAX_LOGS_MS } from "../config.ts";
import { pickResult, type DriverLog, type PickedResult } from "../domain/pick-result.ts";
import type { SessionRecord, SessionWarning } from "../domain/session.ts";
import type { LivePod } from "../domain/snapshot.ts";
import type { LogsRead } from "../domain/transition-record.ts";
import type { LogStore } from "./log-store.ts";
import type { LogTail, PodLogs } from "./pod-logs.ts";

const ATTEMPT_MS = 10_000;
const PAUSE_MS = { step: 500, most: 2000 };
/** Maximum number of concurrent reads per session. */
const MAX_LOGS_PER_SESSION = 8;
/** Size of the end of a truncated log in which a result is searched. */
const END = { lines: 1000, limitBytes: 2 ** 20 };

export type LogReading = {
  readonly logs: PodLogs;
  readonly store: LogStore;
  /** Maximum bytes that are stored of each container's log. */
  readonly limitBytes: number;
  /** Time for which reading a log is retried, longer than a short outage of the API server. After it, the unread part of the log is lost. */
  readonly patienceMs: number;
  /** Time for which reading the driver's log, which has the result, is retried. */
  readonly resultPatienceMs: number;
  /** Limits concurrent reads over all sessions of this process. Each read holds up to the stored size of a log in memory. */
  readonly turns: TakeTurn;
  /** Aborts all reads. */
  readonly deadline: AbortSignal;
};

type PodReading = {
  readonly pod: LivePod;
  readonly lost: string[];
  /** Number of containers that are not read yet. */
  left: number;
  /** The driver's result, from its log and its result file. The log itself is discarded, because reading the session's other logs may take long. */
  result: PickedResult | undefined;
};

/**
 * Stores the log of every started container and picks the driver's result. Reports each pod once all of its logs are stored or lost. A lost log or result is a
 * warning, and never delays the end of a session.
 */
export async function collectLogs(
  reading: LogReading,
  record: SessionRecord,
  pods: readonly LivePod[],
  onRead: (read: LogsRead) => void,
): Promise<void> {
  const driver = record.components.find(({ kind }) => kind === "driver");
  const readings = pods.map((pod): PodReading => ({
    pod,
    lost: [],
    left: pod.containers.length,
    result: undefined,
  }));
  const report = (of: PodReading): void => onRead(logsReadOf(of, of.pod.pod === driver?.pod));
  for (const of of readings) if (of.left === 0) report(of);
  const sources = readings
    .flatMap((of) => of.pod.containers.map((container) => ({ of, container, isResult: false })))
    .map((source) => ({
      ...source,
      isResult: source.of.pod.pod === driver?.pod && source.container === MAIN_CONTAINER,
    }))
    // The log with the result comes first, so that it gets the whole time, however many logs follow.
    .sort((a, b) => Number(b.isResult) - Number(a.isResult));
  const keep = async ({ of, container, isResult }: (typeof sources)[number]): Promise<void> => {
    const lost = await keepLog(reading, { session: record.name, of, container, isResult });
    if (lost !== undefined) of.lost.push(`${of.pod.pod}/${container}: ${lost}`);
    of.left -= 1;
    if (of.left === 0) report(of);
  };
  const defects: unknown[] = [];
  await forEachSome(sources, MAX_LOGS_PER_SESSION, keep, (_, error) => defects.push(error));
  if (defects.length > 0) throw defects[0];
}

/** Stores one log. Returns why the log, or its end, is lost; undefined if the log is complete. */
async function keepLog(
  reading: LogReading,
  source: {
    readonly session: string;
    readonly of: PodReading;
    readonly container: string;
    readonly isResult: boolean;
  },
): Promise<string | undefined> {
  const { session, of, container, isResult } = source;
  const { pod } = of.pod;
  const patience: Patience = { ms: isResult ? reading.resultPatienceMs : reading.patienceMs, endMs: undefined };
  try {
    // Each attempt queues separately, so that a failing log does not block others between attempts.
    return await retryUntilDeadline(reading, patience, () =>
      inTurn(reading, async (signal) => {
        patience.endMs ??= performance.now() + patience.ms;
        const tail = await reading.logs.readTail(pod, container, reading.limitBytes, signal);
        if (isResult) {
          const log = await driverLogOf(reading, { pod, container, tail }, patience);
          of.result = pickResult(log, of.pod.leftText);
        }
        await retryUntilDeadline(reading, patience, () => reading.store.keep({ session, pod, container }, tail));
        return tail.broken && `the end is missing: ${describeFault(tail.broken)}`;
      }),
    );
  } catch (error) {
    const reason = reasonOf(error);
    if (isResult) of.result ??= pickResult({ unreadable: reason }, of.pod.leftText);
    return reason;
  }
}

function logsReadOf({ pod, lost, ...read }: PodReading, isDriver: boolean): LogsRead {
  const warnings = lost.map((text) => warning("LOGS_LOST", text));
  if (!isDriver) return { kind: "logs-read", pod: pod.pod, warnings, resultJson: undefined };
  const result = read.result ?? pickResult(undefined, pod.leftText);
  const spoiled = result.lost === undefined ? [] : [warning("RESULT_LOST", result.lost)];
  return { kind: "logs-read", pod: pod.pod, warnings: [...spoiled, ...warnings], resultJson: result.resultJson };
}

/** Reads the end of a truncated log again, because a result must not span the gap in the middle of the log. */
async function driverLogOf(
  reading: LogReading,
  { pod, container, tail }: { readonly pod: string; readonly container: string; readonly tail: LogTail },
  patience: Patience,
): Promise<DriverLog> {
  if (tail.broken === undefined) return logOf(tail);
  const unreadable = describeFault(tail.broken);
  try {
    const end = await retryUntilDeadline(reading, patience, async () => {
      const read = await reading.logs.readEnd(pod, container, END, attempt(reading));
      return read.broken === undefined ? read : throwFault(read.broken);
    });
    const log = logOf(end);
    // The result may be in a line before these lines.
    return pickResult(log, "").resultJson === "" ? { unreadable } : log;
  } catch (error) {
    reasonOf(error);
    return { unreadable };
  }
}

function logOf({ bytes, omittedBytes }: LogTail): DriverLog {
  return { text: new TextDecoder().decode(bytes), startMissing: omittedBytes > 0 };
}

/** Retry time of one log. `endMs` is undefined until the log's first turn, so that queueing does not count. */
type Patience = { readonly ms: number; endMs: number | undefined };

/** Retries until the time has passed or an error is permanent. */
async function retryUntilDeadline<Result>(
  { deadline }: LogReading,
  patience: Patience,
  work: () => Promise<Result>,
): Promise<Result> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await work();
    } catch (error) {
      const fault = findFault(error);
      const isOver = performance.now() >= (patience.endMs ?? Infinity) || deadline.aborted;
      if (fault === undefined || !isRetryable(fault) || isOver) throw error;
      await pause(Math.min(PAUSE_MS.most, PAUSE_MS.step * attempts), deadline);
    }
  }
}

/** Runs work in a turn. Rejects with deadline_exceeded if the time for all logs passes first. */
async function inTurn<Result>(reading: LogReading, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const turn = { begun: false };
  try {
    return await reading.turns(() => {
      turn.begun = true;
      return work(attempt(reading));
    }, reading.deadline);
  } catch (error) {
    if (turn.begun) throw error;
    const late = {
      code: "deadline_exceeded",
      operation: "the wait for a turn to read a log",
      timeoutMs: MAX_LOGS_MS,
    } as const;
    return throwFault(late, { cause: error });
  }
}

function attempt({ deadline }: LogReading): AbortSignal {
  return AbortSignal.any([AbortSignal.timeout(ATTEMPT_MS), deadline]);
}

/** Describes a fault; rethrows any other error, which is a defect. */
function reasonOf(error: unknown): string {
  const fault = findFault(error);
  if (fault === undefined) throw error;
  return describeFault(fault);
}

function warning(code: SessionWarning["code"], text: string): SessionWarning {
  return { code, message: text.slice(0, 256) };
}
