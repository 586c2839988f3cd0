import type { CleanPodPolicy } from "./job.ts";
import { isActive, podsOf } from "./job-pods.ts";
import { conditionOf, type JobStatus } from "./job-status.ts";
import { planGroupDeletions } from "./plan-group.ts";
import { heldMachines, isStray } from "./member-machines.ts";
import { planReleases } from "./plan-job-machines.ts";
import { planDeletions } from "./plan-pods.ts";
import type { JobPlan, JobStep, StopReason } from "./plan-steps.ts";
import type { JobPolicy, Snapshot } from "./snapshot.ts";

/** The spec's rules for a finished job; for an unreadable spec, rules that leave nothing running. */
export type CleanUpPolicy = {
  readonly cleanPodPolicy: CleanPodPolicy;
  readonly ttlAfterFinishedMs: number | undefined;
};

/**
 * Keeps of a finished job what its policy allows, but never a pod that may run on a machine which is not the job's. Deletes pods, then services and the
 * group, whether or not there were pods, and always the budget; releases machines as soon as nothing runs on them; deletes the job last. Its outcome never
 * changes.
 */
export function planCleanUp(snapshot: Snapshot, status: JobStatus, after: CleanUpPolicy, policy: JobPolicy): JobPlan {
  const { cleanPodPolicy } = after;
  const held = heldMachines(snapshot);
  const pods = podsOf(snapshot).filter(
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

/** By the recorded end. An end in the future, by another machine's clock, delays the deletion and never hastens it. */
function planJobDeletion(
  { nowMs }: Snapshot,
  status: JobStatus,
  { ttlAfterFinishedMs }: CleanUpPolicy,
  policy: JobPolicy,
): { steps: JobStep[]; inMs: number | undefined } {
  if (ttlAfterFinishedMs === undefined) return { steps: [], inMs: undefined };
  const ended = conditionOf(status, "Succeeded") ?? conditionOf(status, "Failed");
  const endMs = status.completionMs ?? ended?.lastTransitionMs;
  if (endMs === undefined) return { steps: [], inMs: undefined };
  const inMs = endMs + ttlAfterFinishedMs - nowMs;
  // A long delay is split: timers have a maximum, and clocks are corrected meanwhile.
  return inMs <= 0
    ? { steps: [{ kind: "delete-job", because: "ttl-over" }], inMs: undefined }
    : { steps: [], inMs: Math.min(inMs, policy.maxRecheckMs) };
}
