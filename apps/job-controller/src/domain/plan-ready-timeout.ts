import { formatDuration } from "@muster/faults";
import { countGang, buildOwnerId } from "./build-units.ts";
import { MAX_CLOCK_SKEW_MS } from "./decide-end-time.ts";
import { computeRestartPauseMs, type RestartPauses } from "./decide-restart.ts";
import type { JobSpec } from "./job.ts";
import { findCondition, isTrue, removeCondition, type JobStatus } from "./job-status.ts";
import type { GrantedUnit } from "./member-machines.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";
import { transitionConditions, roundToSecond } from "./transition-conditions.ts";

/** The code of the wait after a ready timeout, until the machines are requested again. */
export const READY_TIMEOUT = "READY_TIMEOUT";

type Timeouts = Pick<JobStatus, "readyTimeouts" | "lastReadyTimeoutMs">;

/** Records that the whole gang is ready, which ends its series of consecutive timeouts. Completed members count as ready. */
export function recordReadiness(snapshot: Snapshot, spec: JobSpec, status: JobStatus): JobStatus {
  if (status.regrouping || status.hasBeenReady || queuedGang(snapshot) === undefined) return status;
  const { ready, all } = countReady(snapshot, spec, status);
  if (ready < all) return status;
  const noted = { ...status, hasBeenReady: true, readyTimeouts: 0, lastReadyTimeoutMs: undefined };
  if (!isTrue(status, "Requeued")) return noted;
  const change = { type: "Requeued", status: "False", reason: "GangReady", message: "its members are ready" } as const;
  return transitionConditions(noted, change, snapshot.nowMs);
}

/**
 * Makes a gang leave its machines if it is not ready within the `readyTimeout` of its queue. As in a regrouping, its pods are deleted and its machines
 * released. The machines are requested again after a pause that doubles with each consecutive timeout. `status` has the readiness of this pass.
 */
export function requeueUnreadyGang(
  snapshot: Snapshot,
  spec: JobSpec,
  status: JobStatus,
  policy: RestartPauses,
): JobStatus {
  const { nowMs, readyTimeoutMs = 0 } = snapshot;
  const [gang, dueMs] = [queuedGang(snapshot), computeReadyDueMs(snapshot, status)];
  if (gang?.queue === undefined || dueMs === undefined || nowMs < dueMs) return status;
  const readyTimeouts = status.readyTimeouts + 1;
  const last = { readyTimeouts, lastReadyTimeoutMs: roundToSecond(nowMs) };
  const left = { ...status, ...last, startMs: undefined, regrouping: true, attempt: status.attempt + 1 };
  const { ready, all } = countReady(snapshot, spec, status);
  const limit = { readyTimeoutMs, queue: gang.queue };
  const trouble = findCondition(status, "PodsWaiting")?.message;
  const why = trouble === undefined ? "" : `: ${trouble}`;
  const message = `${ready} of ${all} members were ready within ${describeTimeout(last, limit, policy)}${why}`;
  // A condition that is still True from the previous timeout would not end conditions that have become True since.
  const requeued = transitionConditions(
    removeCondition(left, "Requeued"),
    { type: "Requeued", status: "True", reason: "ReadyTimeout", message },
    nowMs,
  );
  const wait = { type: "MachinesReserved", status: "False", reason: READY_TIMEOUT, message } as const;
  return transitionConditions(requeued, wait, nowMs);
}

/** Describes the limit, the consecutive timeouts and the next request. */
export function describeTimeout(
  { readyTimeouts, lastReadyTimeoutMs }: Timeouts & { readonly lastReadyTimeoutMs: number },
  { readyTimeoutMs, queue }: { readonly readyTimeoutMs: number; readonly queue: string },
  policy: RestartPauses,
): string {
  const row = readyTimeouts === 1 ? "" : `, ${readyTimeouts} times in a row`;
  const again = new Date(lastReadyTimeoutMs + computeRestartPauseMs(readyTimeouts, policy)).toISOString();
  const limit = `the readyTimeout ${formatDuration(readyTimeoutMs)} of the queue ${queue}`;
  return `${limit}${row}; its machines are released, and requested again at ${again}`;
}

/** Returns when the gang must be ready; undefined if the gang has been ready, or no limit applies. */
export function computeReadyDueMs(snapshot: Snapshot, status: JobStatus): number | undefined {
  const { readyTimeoutMs } = snapshot;
  if (readyTimeoutMs === undefined || status.startMs === undefined) return undefined;
  if (status.regrouping || status.hasBeenReady || queuedGang(snapshot) === undefined) return undefined;
  return status.startMs + readyTimeoutMs;
}

/** Returns when a gang requests its machines again after a ready timeout; undefined if it may request them now. */
export function computeRequeueAtMs(
  { readyTimeouts, lastReadyTimeoutMs }: Timeouts,
  policy: RestartPauses,
  nowMs: number,
): number | undefined {
  // A time far in the future comes from another leader's clock.
  if (lastReadyTimeoutMs === undefined || lastReadyTimeoutMs > nowMs + MAX_CLOCK_SKEW_MS) return undefined;
  const atMs = lastReadyTimeoutMs + computeRestartPauseMs(readyTimeouts, policy);
  return atMs > nowMs ? atMs : undefined;
}

function queuedGang({ units, job }: Snapshot): GrantedUnit | undefined {
  const gang = units.find(({ id }) => id === buildOwnerId(job));
  return gang?.state === "granted" && gang.queue !== undefined ? gang : undefined;
}

/** Counts the ready members of the gang, without which the job does not start. */
function countReady(
  snapshot: Snapshot,
  spec: JobSpec,
  status: JobStatus,
): { readonly ready: number; readonly all: number } {
  const counts = spec.replicas.map((replica) => {
    const completed = status.replicas.find(({ type }) => type === replica.type)?.completedIndexes ?? [];
    const slots = snapshot.replicas.find(({ type }) => type === replica.type)?.slots ?? [];
    const ready = slots.filter((pod, index) => completed.includes(index) || isReady(pod, status)).length;
    const all = countGang(replica);
    return { ready: Math.min(ready, all), all };
  });
  return {
    ready: counts.reduce((sum, { ready }) => sum + ready, 0),
    all: counts.reduce((sum, { all }) => sum + all, 0),
  };
}

function isReady(pod: PodFact | undefined, { attempt }: JobStatus): boolean {
  if (pod === undefined || pod.deleting || pod.attempt !== attempt) return false;
  return pod.phase === "Succeeded" || (pod.phase === "Running" && pod.ready);
}
