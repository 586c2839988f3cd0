import type { CleanPodPolicy } from "./job.ts";
import { conditionOf, type JobStatus } from "./job-status.ts";
import { planGroupAway } from "./plan-group.ts";
import { heldMachines, isStray, planReturn, podsOf } from "./plan-machines.ts";
import { planDeletions } from "./plan-pods.ts";
import type { JobPlan, JobStep } from "./plan-steps.ts";
import type { JobPolicy, Snapshot } from "./snapshot.ts";
import { isActive } from "./summarise-replicas.ts";

/** What the spec says of the time after; for a spec that cannot be read, what leaves nothing running. */
export type AfterLife = { readonly cleanPodPolicy: CleanPodPolicy; readonly ttlAfterFinishedMs: number | undefined };

/**
 * Leaves of a job that is over what its policy says, and never a pod that may run on a machine which is not the job's: pods, then services and the group whether or not there were pods, the budget always; machines as soon as nothing runs on them,
 * and at last the job itself. Its outcome is never touched again.
 */
export function planCleanUp(snapshot: Snapshot, status: JobStatus, after: AfterLife, policy: JobPolicy): JobPlan {
  const { cleanPodPolicy } = after;
  const held = heldMachines(snapshot);
  const pods = podsOf(snapshot).filter(
    (pod) => cleanPodPolicy === "All" || (cleanPodPolicy === "Running" ? isActive(pod) : isStray(pod, held)),
  );
  const { steps, inMs } = planLifeEnd(snapshot, status, after, policy);
  return {
    status,
    steps: [
      ...planDeletions(pods, "job-over"),
      ...(cleanPodPolicy === "None" ? [] : planServicesAway(snapshot, "job-over")),
      ...planBudgetAway(snapshot, "job-over"),
      ...(cleanPodPolicy === "None" ? [] : planGroupAway(snapshot, "job-over")),
      ...planReturn(snapshot, "job-over"),
      ...steps,
    ],
    lookAgainInMs: inMs,
  };
}

export function planServicesAway({ services }: Snapshot, because: "suspended" | "job-over"): JobStep[] {
  if (!services.settled) return [];
  return services.present.map((service): JobStep => ({ kind: "delete-service", service, because }));
}

export function planBudgetAway({ budget }: Snapshot, because: "suspended" | "handed-over" | "job-over"): JobStep[] {
  return budget === undefined ? [] : [{ kind: "delete-budget", because }];
}

/** By the end that is recorded. One that lies in the future, by another machine's clock, puts the deletion off and never brings it forward. */
function planLifeEnd(
  { nowMs }: Snapshot,
  status: JobStatus,
  { ttlAfterFinishedMs }: AfterLife,
  policy: JobPolicy,
): { steps: JobStep[]; inMs: number | undefined } {
  if (ttlAfterFinishedMs === undefined) return { steps: [], inMs: undefined };
  const ended = conditionOf(status, "Succeeded") ?? conditionOf(status, "Failed");
  const endMs = status.completionMs ?? ended?.lastTransitionMs;
  if (endMs === undefined) return { steps: [], inMs: undefined };
  const inMs = endMs + ttlAfterFinishedMs - nowMs;
  // A delay is asked for in pieces: timers have a longest time, and clocks are put right meanwhile.
  return inMs <= 0
    ? { steps: [{ kind: "delete-job", because: "ttl-over" }], inMs: undefined }
    : { steps: [], inMs: Math.min(inMs, policy.lookAgainMostMs) };
}
