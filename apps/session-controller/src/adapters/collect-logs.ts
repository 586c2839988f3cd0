import { setTimeout as sleep } from "node:timers/promises";
import { describeFault, faultOf, isRetryable, throwFault } from "@muster/faults";
import { LOGS_MOST_MS } from "../config.ts";
import { MAIN_CONTAINER } from "../domain/build-pod.ts";
import { pickResult, type DriverLog } from "../domain/pick-result.ts";
import type { SessionRecord, Warning } from "../domain/session.ts";
import type { LivePod } from "../domain/snapshot.ts";
import { atMost } from "./at-most.ts";
import type { LogStore } from "./log-store.ts";
import type { LogTail, PodLogs } from "./pod-logs.ts";

export type Collected = { readonly warnings: readonly Warning[]; readonly resultJson: string };

const ATTEMPT_MS = 10_000;
const PAUSE_MS = { step: 500, most: 2000 };
/** Each one holds up to the kept size of a log in memory. */
const AT_ONCE = 8;
/** Where a result is looked for in a log that broke off. */
const END = { lines: 1000, limitBytes: 2 ** 20 };

/** What the logs of one session are read with. */
export type LogReading = {
  readonly logs: PodLogs;
  readonly store: LogStore;
  /** Kept of each container's log. */
  readonly limitBytes: number;
  /** A log is tried for so long, which outlasts an API server that is away for a moment; then it is lost. What had come of it by then is kept. */
  readonly patienceMs: number;
  /** The same for the driver's log, in which the result is. */
  readonly resultPatienceMs: number;
  /** Ends all reading; by default after a time. */
  readonly deadline?: AbortSignal;
};

/**
 * Keeps the log of every container that has started, and picks the driver's result. What cannot be kept is a warning, so that it never holds up the end of a
 * session; also a result that the driver may have left.
 */
export async function collectLogs(
  reading: LogReading,
  record: SessionRecord,
  pods: readonly LivePod[],
): Promise<Collected> {
  const { deadline = AbortSignal.timeout(LOGS_MOST_MS) } = reading;
  const driver = record.components.find(({ kind }) => kind === "driver");
  let driverLog: DriverLog | undefined;
  const isResult = (pod: string, container: string): boolean => pod === driver?.pod && container === MAIN_CONTAINER;
  const sources = pods
    .flatMap(({ pod, containers }) => containers.map((container) => ({ pod, container })))
    // However many logs there are, the one with the result has all the time.
    .sort((a, b) => Number(isResult(b.pod, b.container)) - Number(isResult(a.pod, a.container)));
  const lost = await atMost(AT_ONCE, sources, async ({ pod, container }) => {
    const isDriver = isResult(pod, container);
    const endMs = performance.now() + (isDriver ? reading.resultPatienceMs : reading.patienceMs);
    try {
      const tail = await patiently(endMs, deadline, (signal) =>
        reading.logs.readTail(pod, container, reading.limitBytes, signal),
      );
      if (isDriver) driverLog = await driverLogOf(reading, { pod, container, tail }, endMs, deadline);
      await patiently(endMs, deadline, () => reading.store.keep({ session: record.name, pod, container }, tail));
      return tail.broken && `${pod}/${container}: the end is missing: ${describeFault(tail.broken)}`;
    } catch (error) {
      const reason = reasonOf(error);
      if (isDriver) driverLog ??= { unreadable: reason };
      return `${pod}/${container}: ${reason}`;
    }
  });
  const there = new Set(pods.map(({ uid }) => uid));
  const gone = record.components
    .filter(({ podUid }) => podUid !== "" && !there.has(podUid))
    .map(({ pod }) => `${pod}: the pod was gone before its log was kept`);
  if (driver !== undefined && driver.podUid !== "" && !there.has(driver.podUid))
    driverLog = { unreadable: "its pod was gone" };
  const file = pods.find(({ uid }) => uid === driver?.podUid)?.leftText ?? "";
  const result = pickResult(driverLog, file);
  const warnings = [
    ...(result.lost === undefined ? [] : [warning("RESULT_LOST", result.lost)]),
    ...[...lost.filter((text) => text !== undefined), ...gone].map((text) => warning("LOGS_LOST", text)),
  ];
  return { warnings, resultJson: result.resultJson };
}

/** A log that broke off is read once more from behind: what is missing in its middle is no part of the result. */
async function driverLogOf(
  { logs }: LogReading,
  { pod, container, tail }: { readonly pod: string; readonly container: string; readonly tail: LogTail },
  endMs: number,
  deadline: AbortSignal,
): Promise<DriverLog> {
  if (tail.broken === undefined) return logOf(tail);
  const unreadable = describeFault(tail.broken);
  try {
    const end = await patiently(endMs, deadline, async (signal) => {
      const read = await logs.readEnd(pod, container, END, signal);
      return read.broken === undefined ? read : throwFault(read.broken);
    });
    const log = logOf(end);
    // The result may be among the lines before these.
    return pickResult(log, "").resultJson === "" ? { unreadable } : log;
  } catch (error) {
    reasonOf(error);
    return { unreadable };
  }
}

function logOf({ bytes, omittedBytes }: LogTail): DriverLog {
  return { text: new TextDecoder().decode(bytes), startMissing: omittedBytes > 0 };
}

/** Tries again while the patience lasts, whatever may pass. */
async function patiently<Result>(
  endMs: number,
  deadline: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work(AbortSignal.any([AbortSignal.timeout(ATTEMPT_MS), deadline]));
    } catch (error) {
      const fault = faultOf(error);
      const isOver = performance.now() >= endMs || deadline.aborted;
      if (fault === undefined || !isRetryable(fault) || isOver) throw error;
      await sleep(Math.min(PAUSE_MS.most, PAUSE_MS.step * attempt));
    }
  }
}

/** A fault in words; anything else is a defect and goes on up. */
function reasonOf(error: unknown): string {
  const fault = faultOf(error);
  if (fault === undefined) throw error;
  return describeFault(fault);
}

function warning(code: Warning["code"], text: string): Warning {
  return { code, message: text.slice(0, 256) };
}
