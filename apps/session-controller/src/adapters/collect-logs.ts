import { setTimeout as sleep } from "node:timers/promises";
import { describeFault, faultOf, isRetryable } from "@muster/faults";
import { MAIN_CONTAINER } from "../domain/build-pod.ts";
import { pickResult } from "../domain/pick-result.ts";
import type { SessionRecord, Warning } from "../domain/session.ts";
import type { LivePod } from "../domain/snapshot.ts";
import { atMost } from "./at-most.ts";
import type { LogStore } from "./log-store.ts";
import type { PodLogs } from "./pod-logs.ts";

export type Collected = { readonly warnings: readonly Warning[]; readonly resultJson: string };

/** A container's log is tried this often, within this time; then it is lost. */
const ATTEMPTS = 3;
const ATTEMPT_MS = 10_000;
const PAUSE_MS = 500;
/** Each one holds up to the kept size of a log in memory. */
const AT_ONCE = 8;

/** Keeps the log of every container that has started, and picks the driver's result. What cannot be kept is a warning, so that it never holds up the end of a session. */
export async function collectLogs(
  logs: PodLogs,
  store: LogStore,
  record: SessionRecord,
  pods: readonly LivePod[],
  limitBytes: number,
): Promise<Collected> {
  const driver = record.components.find(({ kind }) => kind === "driver");
  let resultJson = "";
  const sources = pods.flatMap(({ pod, containers }) => containers.map((container) => ({ pod, container })));
  const lost = await atMost(AT_ONCE, sources, async ({ pod, container }) => {
    try {
      const text = await keep(logs, store, { session: record.name, pod, container }, limitBytes);
      if (pod === driver?.pod && container === MAIN_CONTAINER) resultJson = pickResult(text);
      return undefined;
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
  const warnings = [...lost.filter((text) => text !== undefined), ...gone].map((message) => ({
    code: "LOGS_LOST" as const,
    message: message.slice(0, 512),
  }));
  return { warnings, resultJson };
}

async function keep(
  logs: PodLogs,
  store: LogStore,
  name: { readonly session: string; readonly pod: string; readonly container: string },
  limitBytes: number,
): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const tail = await logs.readTail(name.pod, name.container, limitBytes, AbortSignal.timeout(ATTEMPT_MS));
      await store.keep(name, tail);
      return new TextDecoder().decode(tail.bytes);
    } catch (error) {
      const fault = faultOf(error);
      if (fault === undefined || !isRetryable(fault) || attempt >= ATTEMPTS) throw error;
      await sleep(PAUSE_MS * attempt);
    }
  }
}
