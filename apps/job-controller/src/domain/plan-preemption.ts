import { buildOwnerId } from "./build-units.ts";
import { isActive, canRun, listPods } from "./job-pods.ts";
import { removeCondition, type ConditionType, type JobStatus } from "./job-status.ts";
import type { GrantedUnit } from "./member-machines.ts";
import { planBudgetDeletion, planServiceDeletions } from "./plan-clean-up.ts";
import { planGroupDeletions } from "./plan-group.ts";
import { isOccupied, planRelease } from "./plan-job-machines.ts";
import { planDeletions } from "./plan-pods.ts";
import type { JobPlan, JobStep } from "./plan-steps.ts";
import type { JobPolicy, PodFact, Snapshot, UnitPreemption } from "./snapshot.ts";
import { transitionConditions } from "./transition-conditions.ts";

export type PreemptedUnit = GrantedUnit & { readonly preemption: UnitPreemption };
/** Removes a pod that still exists after the deadline of its preemption. */
export type ForcePreempted = Extract<JobStep, { readonly kind: "force-pod" }> & { readonly because: "preempted" };

/** Interval of checks of the node after the deadline and after each attempt. A node that does not answer ends the pod itself. */
const FORCE_AGAIN_MS = 5000;

/** Returns the gang's unit while its machines are preempted for a waiting request; undefined if the job keeps its machines. */
export function findPreemptedGang({ units, job }: Snapshot): PreemptedUnit | undefined {
  return units.filter(isPreempted).find(({ id }) => id === buildOwnerId(job));
}

/**
 * Ends a job with preempted machines as its suspension would: deletes its active pods, by force after the deadline, and requeues the reservation after no pod
 * can run. Completed members stay completed, and no end counts. The job continues until the ledger knows that it leaves. `before` has the counts of this pass.
 */
export function planPreemptedGang(
  snapshot: Snapshot,
  before: JobStatus,
  gang: PreemptedUnit,
  policy: JobPolicy,
): JobPlan {
  const { preemption } = gang;
  if (!preemption.accepted) return { status: before, steps: [acceptance(gang)], recheckInMs: undefined };
  const pods = listPods(snapshot);
  const others = snapshot.units.filter((unit) => unit !== gang);
  const isOver = !pods.some(canRun) && !isOccupied(snapshot, gang);
  return {
    status: recordPreemption(before, preemption, snapshot.nowMs),
    steps: [
      // A pod that ended after the announcement has not finished, and its end does not count as its own.
      ...planDeletions(
        pods.filter((pod) => isActive(pod) || pod.preempted),
        "preempted",
      ),
      ...planOverduePods(snapshot, pods.filter(canRun), preemption),
      ...planServiceDeletions(snapshot, "preempted"),
      ...planBudgetDeletion(snapshot, "preempted"),
      ...planGroupDeletions(snapshot, "preempted"),
      ...others.flatMap((unit) => planRelease(snapshot, unit, "preempted")),
      ...(isOver ? [requeue(gang)] : []),
    ],
    recheckInMs: isOver ? undefined : computeForceDelayMs(snapshot, [preemption], policy),
  };
}

/** Plans the end of single members with their own preempted machines, while the gang keeps its machines. */
export function planPreemptedMembers(
  snapshot: Snapshot,
  policy: JobPolicy,
): { readonly steps: readonly JobStep[]; readonly recheckInMs: number | undefined } {
  const preempted = snapshot.units.filter(isPreempted).filter(({ id }) => id !== buildOwnerId(snapshot.job));
  const leaving = preempted.filter(({ preemption }) => preemption.accepted);
  return {
    steps: preempted.flatMap((unit): JobStep[] => {
      if (!unit.preemption.accepted) return [acceptance(unit)];
      const pods = listPods(snapshot).filter(({ component }) => unit.nodes.has(component));
      return [
        ...planDeletions(pods.filter(isActive), "preempted"),
        ...planOverduePods(snapshot, pods.filter(canRun), unit.preemption),
        ...(isOccupied(snapshot, unit) ? [] : [requeue(unit)]),
      ];
    }),
    recheckInMs: computeForceDelayMs(
      snapshot,
      leaving.map(({ preemption }) => preemption),
      policy,
    ),
  };
}

/** Whether the machines of the unit are preempted for other work. */
export function isPreempted(unit: Snapshot["units"][number]): unit is PreemptedUnit {
  return unit.state === "granted" && unit.preemption !== undefined;
}

function acceptance({ id, preemption }: PreemptedUnit): JobStep {
  return { kind: "accept-preemption", unitId: id, because: preemption.reason };
}

function requeue({ id }: PreemptedUnit): JobStep {
  return { kind: "requeue", unitId: id, because: "preempted" };
}

type RunningPod = Pick<PodFact, "name" | "uid" | "node" | "deleting">;

/** Plans forced deletions of pods after their grace, only where the kubelet can still end them. Elsewhere a pod may continue to run after its deletion. */
export function planOverduePods(
  { nowMs, nodesReady = [] }: Pick<Snapshot, "nowMs" | "nodesReady">,
  running: readonly RunningPod[],
  { deadlineMs }: Pick<UnitPreemption, "deadlineMs">,
): ForcePreempted[] {
  if (nowMs < deadlineMs) return [];
  return running
    .filter(({ deleting, node }) => deleting && node !== undefined && nodesReady.includes(node))
    .map(({ name, uid }) => ({ kind: "force-pod", pod: name, uid, because: "preempted" }));
}

/** Returns milliseconds until the pods of preempted units are deleted by force, or checked again; undefined without such units. */
export function computeForceDelayMs(
  { nowMs }: Pick<Snapshot, "nowMs">,
  preemptions: readonly Pick<UnitPreemption, "deadlineMs">[],
  { maxRecheckMs }: Pick<JobPolicy, "maxRecheckMs">,
): number | undefined {
  if (preemptions.length === 0) return undefined;
  const dueMs = preemptions.map(({ deadlineMs }) => (deadlineMs > nowMs ? deadlineMs - nowMs : FORCE_AGAIN_MS));
  return Math.min(...dueMs, maxRecheckMs);
}

/** These conditions describe a job that has machines or waits for them. */
const MEANINGLESS: readonly ConditionType[] = ["MachinesReserved", "Restarting", "PodNamesTaken", "PodsWaiting"];

function recordPreemption(status: JobStatus, preemption: UnitPreemption, nowMs: number): JobStatus {
  const stopped = { ...status, startMs: undefined, replaced: [], regrouping: false, hasBeenReady: false };
  const cleared = MEANINGLESS.reduce<JobStatus>(removeCondition, stopped);
  const { reason } = preemption;
  return transitionConditions(
    cleared,
    { type: "Preempted", status: "True", reason, message: describePreemption(preemption) },
    nowMs,
  );
}

const WHY: Readonly<Record<string, string>> = {
  RECLAIM: "which owns the quota that the job borrows",
  FAIR_SHARING: "whose share is smaller",
  WITHIN_QUEUE: "in which it comes first",
};

/** Describes the preemption for people. The text contains no number that changes while the pods end. */
export function describePreemption({ beneficiary, queue, reason, deadlineMs }: UnitPreemption): string {
  const by = new Date(deadlineMs).toISOString();
  if (reason === "DRAIN")
    return `its queue is drained; its pods end by ${by}, and then it waits until the queue admits work again`;
  const { kind, id } = beneficiary;
  const why = WHY[reason] ?? `because of ${reason}`;
  return `its machines are taken for ${kind}/${id} of the queue ${queue}, ${why}; its pods end by ${by}, and then it waits again at its old place`;
}
