import { canRun, listPods } from "./job-pods.ts";
import { isFinished, type Condition, type JobStatus } from "./job-status.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";
import { roundToSecond } from "./transition-conditions.ts";

/**
 * Recovers lost parts of the status from pods. A client that replaces a job of another project removes the annotation with its progress. Pods have the attempt
 * as a label, and succeeded pods still exist. A status that other controllers wrote may have conditions without times.
 */
export function recoverStatus(snapshot: Snapshot): JobStatus {
  return withTimes(withAttempt(snapshot.status, snapshot), snapshot);
}

/** Recovers an attempt that has pods. A single pod with another number among the pods of the known attempt does not count, because people can edit labels. */
function withAttempt(status: JobStatus, snapshot: Snapshot): JobStatus {
  const pods = listPods(snapshot).filter((pod) => !pod.deleting && isOwnStatus(pod));
  const highest = Math.max(status.attempt, ...pods.map(({ attempt }) => attempt));
  const isKnown = pods.some((pod) => pod.attempt === status.attempt && canRun(pod));
  return highest === status.attempt || isKnown ? status : { ...status, attempt: highest };
}

/**
 * Gives a condition without a time the time of the job, and an end the present time. The end gets its time only once, so that a job with a time to live keeps
 * it in full.
 */
function withTimes(status: JobStatus, { nowMs, job }: Snapshot): JobStatus {
  if (status.conditions.every(isTimed)) return status;
  const endMs = status.completionMs ?? roundToSecond(nowMs);
  const beginMs = status.startMs ?? roundToSecond(job.createdMs);
  const conditions = status.conditions.map((condition): Condition => {
    if (isTimed(condition)) return condition;
    const isEnd = condition.type === "Succeeded" || condition.type === "Failed";
    const atMs = isEnd ? endMs : beginMs;
    return { ...condition, lastUpdateMs: atMs, lastTransitionMs: atMs };
  });
  const timed = { ...status, conditions };
  return isFinished(timed) ? { ...timed, completionMs: status.completionMs ?? findEndMs(timed) } : timed;
}

function isTimed({ lastTransitionMs }: Condition): boolean {
  return lastTransitionMs > 0;
}

function findEndMs({ conditions }: JobStatus): number | undefined {
  return conditions.find(({ type, status }) => (type === "Succeeded" || type === "Failed") && status === "True")
    ?.lastTransitionMs;
}

/** Whether a job-controller created the pod. */
export function isOwnStatus({ component }: PodFact): boolean {
  return component !== "";
}
