import { formatDuration } from "@muster/faults";
import { QUEUED_POD } from "@muster/names";
import { MAX_CLOCK_SKEW_MS } from "../decide-end-time.ts";
import type { RestartPauses } from "../decide-restart.ts";
import { describeTimeout } from "../plan-ready-timeout.ts";
import type { UnitSeen } from "../snapshot.ts";
import { findPlaceSet, type BatchSnapshot, type PodSet } from "./batch-job.ts";
import { NO_PROGRESS, type StartProgress } from "./start-progress.ts";

type GrantedUnit = Extract<UnitSeen, { readonly state: "granted" }>;

/** The work was not ready in time: `start` is the progress to record, and `text` describes the delay for people. */
export type LateStart = { readonly start: StartProgress; readonly text: string };

export type StartVerdict =
  /** No limit applies, or the work was ready before. */
  | { readonly kind: "kept" }
  /** All pods are ready now. */
  | { readonly kind: "ready"; readonly start: StartProgress }
  | { readonly kind: "starting"; readonly dueMs: number }
  | ({ readonly kind: "late" } & LateStart);

/** Builds the progress of work that is admitted now. Without a limit, earlier timeouts are forgotten. */
export function beginStart({ job, nowMs, readyTimeoutMs }: BatchSnapshot): StartProgress {
  return readyTimeoutMs === undefined ? NO_PROGRESS : { ...job.start, startMs: nowMs };
}

/** Decides whether admitted work is ready, is still starting, or has used up the `readyTimeout` of its queue. */
export function decideStart(snapshot: BatchSnapshot, gang: GrantedUnit, policy: RestartPauses): StartVerdict {
  const { job, nowMs, readyTimeoutMs } = snapshot;
  const { startMs } = job.start;
  if (startMs === undefined) return { kind: "kept" };
  const { ready, all } = countReady(snapshot, gang, startMs);
  if (ready >= all) return { kind: "ready", start: NO_PROGRESS };
  if (readyTimeoutMs === undefined) return { kind: "kept" };
  const dueMs = startMs + readyTimeoutMs;
  if (nowMs < dueMs) return { kind: "starting", dueMs };
  const { queue = "" } = gang;
  const count = `${ready} of ${all} pods were ready within`;
  if (job.kind === QUEUED_POD) {
    const text = `${count} the readyTimeout ${formatDuration(readyTimeoutMs)} of the queue ${queue}`;
    return { kind: "late", start: job.start, text };
  }
  const last = { readyTimeouts: job.start.readyTimeouts + 1, lastReadyTimeoutMs: nowMs };
  const text = `${count} ${describeTimeout(last, { readyTimeoutMs, queue }, policy)}`;
  return { kind: "late", start: { startMs: undefined, regrouping: true, ...last }, text };
}

function countReady(snapshot: BatchSnapshot, gang: GrantedUnit, startMs: number) {
  const counts = snapshot.job.sets.map((set) => countReadyPods(set, snapshot, gang, startMs));
  return {
    ready: counts.reduce((sum, { ready }) => sum + ready, 0),
    all: counts.reduce((sum, { all }) => sum + all, 0),
  };
}

/** Counts the pods of a set that are ready or have succeeded since the start, up to the number of places in the grant. */
function countReadyPods({ name, pods: now }: PodSet, { pods }: BatchSnapshot, gang: GrantedUnit, startMs: number) {
  const own = pods.filter((pod) => pod.set === name && pod.ready);
  // A pod that succeeded in an earlier start does not count for this start.
  const succeeded = own.filter(
    ({ finished, createdMs }) => finished && createdMs >= startMs - MAX_CLOCK_SKEW_MS,
  ).length;
  const ready = own.filter(({ finished, deleting }) => !finished && !deleting).length + succeeded;
  const places = [...gang.nodes.keys()].filter((component) => findPlaceSet(component) === name).length;
  const all = Math.min(places, now + succeeded);
  return { ready: Math.min(ready, all), all };
}
