import { setTimeout as sleep } from "node:timers/promises";
import { describeFault, faultOf, isRetryable } from "@muster/faults";
import { MAIN_CONTAINER } from "../domain/build-pod.ts";
import { isSpoiledResult, pickResult } from "../domain/pick-result.ts";
import type { SessionRecord, Warning } from "../domain/session.ts";
import type { LivePod } from "../domain/snapshot.ts";
import { atMost } from "./at-most.ts";
import type { LogStore } from "./log-store.ts";
import type { LogTail, PodLogs } from "./pod-logs.ts";

export type Collected = { readonly warnings: readonly Warning[]; readonly resultJson: string };

const ATTEMPT_MS = 10_000;
const PAUSE_MS = { step: 500, most: 2000 };
/** All logs of a session together: machines wait for the end of this. */
const ALL_MS = 60_000;
/** Each one holds up to the kept size of a log in memory. */
const AT_ONCE = 8;

/** What the logs of one session are read with. */
export type LogReading = {
  readonly logs: PodLogs;
  readonly store: LogStore;
  /** Kept of each container's log. */
  readonly limitBytes: number;
  /** A log is tried for so long, which outlasts an API server that is away for a moment; then it is lost. What had come of it by then is kept. */
  readonly patienceMs: number;
  /** Ends all reading; by default after a time. */
  readonly deadline?: AbortSignal;
};

/** Keeps the log of every container that has started, and picks the driver's result. What cannot be kept is a warning, so that it never holds up the end of a session. */
export async function collectLogs(
  reading: LogReading,
  record: SessionRecord,
  pods: readonly LivePod[],
): Promise<Collected> {
  const { deadline = AbortSignal.timeout(ALL_MS) } = reading;
  const driver = record.components.find(({ kind }) => kind === "driver");
  let driverLog = "";
  const sources = pods.flatMap(({ pod, containers }) => containers.map((container) => ({ pod, container })));
  const lost = await atMost(AT_ONCE, sources, async ({ pod, container }) => {
    try {
      const tail = await keep(reading, { session: record.name, pod, container }, deadline);
      if (pod === driver?.pod && container === MAIN_CONTAINER) driverLog = new TextDecoder().decode(tail.bytes);
      return tail.broken && `${pod}/${container}: the end is missing: ${describeFault(tail.broken)}`;
    } catch (error) {
      const fault = faultOf(error);
      if (fault === undefined) throw error;
      return `${pod}/${container}: ${describeFault(fault)}`;
    }
  });
  const there = new Set(pods.map(({ uid }) => uid));
  const gone = record.components
    .filter(({ podUid }) => podUid !== "" && !there.has(podUid))
    .map(({ pod }) => `${pod}: the pod was gone before its log was kept`);
  const file = pods.find(({ uid }) => uid === driver?.podUid)?.leftText ?? "";
  const spoiled = isSpoiledResult(file) ? ["the result file is not a JSON object; it may have 4096 bytes"] : [];
  const warnings = [
    ...spoiled.map((message) => ({ code: "RESULT_LOST" as const, message })),
    ...[...lost.filter((text) => text !== undefined), ...gone].map((message) => ({
      code: "LOGS_LOST" as const,
      message: message.slice(0, 256),
    })),
  ];
  return { warnings, resultJson: pickResult(driverLog, file) };
}

async function keep(
  { logs, store, limitBytes, patienceMs }: LogReading,
  name: { readonly session: string; readonly pod: string; readonly container: string },
  deadline: AbortSignal,
): Promise<LogTail> {
  const endMs = performance.now() + patienceMs;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(ATTEMPT_MS), deadline]);
      const tail = await logs.readTail(name.pod, name.container, limitBytes, signal);
      await store.keep(name, tail);
      return tail;
    } catch (error) {
      const fault = faultOf(error);
      const isOver = performance.now() >= endMs || deadline.aborted;
      if (fault === undefined || !isRetryable(fault) || isOver) throw error;
      await sleep(Math.min(PAUSE_MS.most, PAUSE_MS.step * attempt));
    }
  }
}
