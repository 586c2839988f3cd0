import type { CleanPodPolicy } from "./job.ts";
import { isActive, listPods } from "./job-pods.ts";
import { findCondition, type JobStatus } from "./job-status.ts";
import { planGroupDeletions } from "./plan-group.ts";
import { findHeldMachines, isStray } from "./member-machines.ts";
import { planReleases } from "./plan-job-machines.ts";
import { planDeletions } from "./plan-pods.ts";
import type { JobPlan, JobStep, StopReason } from "./plan-steps.ts";
import type { JobPolicy, Snapshot } from "./snapshot.ts";

/** The spec's rules for a finished job; an unreadable spec gets rules that keep no pod running. */
export type CleanUpPolicy = {
  readonly cleanPodPolicy: CleanPodPolicy;
  readonly ttlAfterFinishedMs: number | undefined;
};

/**
 * Keeps the parts of a finished job that its policy allows, but never a pod that may run on a foreign machine. Deletes pods, then services and the group, even
 * without pods, and always the budget. Releases machines as soon as no pod runs on them, and deletes the job last. The outcome of the job never changes.
 */
export function planCleanUp(snapshot: Snapshot, status: JobStatus, after: CleanUpPolicy, policy: JobPolicy): JobPlan {
  const { cleanPodPolicy } = after;
  const held = findHeldMachines(snapshot);
  const pods = listPods(snapshot).filter(
    (pod) => cleanPodPolicy === "All" || (cleanPodPolicy === "Running" ? isActive(pod) : isStray(pod, held)),
  );
  const { steps, inMs } = planJobDeletion(snapshot, status, after, policy);
  return {
    status,
    steps: [
      ...planDeletions(pods, "job-over"),
      ...(cleanPodPolicy === "None" ? [] : planServiceDeletions(snapshot, "job-over")),
      ...planBudgetDeletion(snapshot, "job-over"),
      ...(cleanPodPolicy === "None" ? [] : planGroupDeletions(snapshot, "job-over")),
      ...planReleases(snapshot, "job-over"),
      ...steps,
    ],
    recheckInMs: inMs,
  };
}

export function planServiceDeletions({ services }: Snapshot, because: StopReason): JobStep[] {
  if (!services.settled) return [];
  return services.present.map((service): JobStep => ({ kind: "delete-service", service, because }));
}

export function planBudgetDeletion({ budget }: Snapshot, because: StopReason | "handed-over"): JobStep[] {
  return budget === undefined ? [] : [{ kind: "delete-budget", because }];
}

/** Plans the deletion by the recorded end. An end that another machine's clock put into the future delays the deletion and never advances it. */
function planJobDeletion(
  { nowMs }: Snapshot,
  status: JobStatus,
  { ttlAfterFinishedMs }: CleanUpPolicy,
  policy: JobPolicy,
): { steps: JobStep[]; inMs: number | undefined } {
  if (ttlAfterFinishedMs === undefined) return { steps: [], inMs: undefined };
  const ended = findCondition(status, "Succeeded") ?? findCondition(status, "Failed");
  const endMs = status.completionMs ?? ended?.lastTransitionMs;
  if (endMs === undefined) return { steps: [], inMs: undefined };
  const inMs = endMs + ttlAfterFinishedMs - nowMs;
  // A long delay is split, because timers have a maximum, and clocks may be corrected meanwhile.
  return inMs <= 0
    ? { steps: [{ kind: "delete-job", because: "ttl-over" }], inMs: undefined }
    : { steps: [], inMs: Math.min(inMs, policy.maxRecheckMs) };
}
