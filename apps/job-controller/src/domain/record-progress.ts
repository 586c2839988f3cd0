import type { JobSpec } from "./job.ts";
import { isTrue, type JobStatus } from "./job-status.ts";
import type { Snapshot } from "./snapshot.ts";
import { transitionConditions } from "./transition-conditions.ts";

/**
 * The job becomes Running when a pod of a type that decides about success runs and none is being recreated. It stays Running after a member of one of these
 * types has completed, because other members may start later.
 */
export function recordProgress(snapshot: Snapshot, spec: JobSpec, status: JobStatus): JobStatus {
  const deciding = new Set(spec.success.flatMap((rule) => rule.map(({ type }) => type)));
  const running = snapshot.replicas.some(
    ({ type, slots }) =>
      deciding.has(type) &&
      slots.some(
        (pod) => pod !== undefined && pod.attempt === status.attempt && pod.phase === "Running" && !pod.deleting,
      ),
  );
  const hasCompleted = status.replicas.some(
    ({ type, completedIndexes }) => deciding.has(type) && completedIndexes.length > 0,
  );
  if (!running) return hasCompleted ? status : recordStandstill(snapshot, status);
  const resumed = isTrue(status, "Preempted")
    ? transitionConditions(
        status,
        { type: "Preempted", status: "False", reason: "JobRunning", message: "it has machines, and runs again" },
        snapshot.nowMs,
      )
    : status;
  return transitionConditions(
    resumed,
    { type: "Running", status: "True", reason: "JobRunning", message: "pods of the job are running" },
    snapshot.nowMs,
  );
}

function recordStandstill({ nowMs }: Snapshot, status: JobStatus): JobStatus {
  if (!isTrue(status, "Running")) return status;
  const message = "no pod that decides about success is running";
  return transitionConditions(status, { type: "Running", status: "False", reason: "NoPodRuns", message }, nowMs);
}
