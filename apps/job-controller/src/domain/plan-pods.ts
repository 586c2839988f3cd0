import { buildComponentName } from "./build-units.ts";
import { decideEndMs } from "./decide-end-time.ts";
import { decidePodFailure, hasEndedByItself, hasMainSucceeded } from "./decide-pod-failure.ts";
import { computeNotRecreatedBeforeMs, computeMemberPauseMs } from "./decide-restart.ts";
import type { JobSpec, ReplicaSpec } from "./job.ts";
import { isActive, canRun, listPods } from "./job-pods.ts";
import type { JobStatus, ReplicaStatus } from "./job-status.ts";
import { listPresentMembers } from "./present-members.ts";
import { findHeldMachines, isMisplaced, type MachinePlaces } from "./member-machines.ts";
import type { DeleteReason, JobStep, PodOrder } from "./plan-steps.ts";
import type { JobPolicy, PodFact, ReplicaSeen, Snapshot } from "./snapshot.ts";
import { buildMemberName } from "./member-names.ts";

type PodPlan = {
  readonly steps: readonly JobStep[];
  /** The times at which failed pods may be recreated. */
  readonly dueMs: readonly number[];
  /** True if a failed pod is about to be recreated. */
  readonly restarting: boolean;
};

/**
 * Keeps one pod for each member of a gang with machines: deletes duplicates, pods of unknown types, and failed pods that may be retried, and creates missing
 * pods. Skips a type whose earlier creations and deletions were not observed yet, or whose dependency is not met.
 */
export function planPods(
  snapshot: Snapshot,
  spec: JobSpec,
  status: JobStatus,
  world: Pick<MachinePlaces, "machines"> & { readonly mayCreate: boolean; readonly policy: JobPolicy },
): PodPlan {
  const old = listPods(snapshot).filter((pod) => pod.attempt !== status.attempt && !hasCompleted(pod, status));
  if (old.length > 0) {
    // A pod of the new attempt must not start beside one of the earlier attempt.
    return { steps: planDeletions(old, "gang-restarts"), dueMs: [], restarting: true };
  }
  const held = findHeldMachines(snapshot);
  const plans = spec.replicas.map((replica): PodPlan => {
    const seen = snapshot.replicas.find(({ type }) => type === replica.type);
    if (seen?.podsSettled !== true) return { steps: [], dueMs: [], restarting: false };
    const mayCreate =
      world.mayCreate && replica.dependsOn.every((each) => isDependencyMet(each, snapshot, spec, status));
    return planType(snapshot, { ...world, held, spec, status, replica, seen, mayCreate });
  });
  return {
    steps: [
      ...planDeletions(snapshot.unknownTypes, "type-removed"),
      ...plans
        .flatMap(({ steps }) => steps)
        .sort((a, b) => Number(a.kind === "create-pods") - Number(b.kind === "create-pods")),
    ],
    dueMs: plans.flatMap(({ dueMs }) => dueMs),
    restarting: plans.some(({ restarting }) => restarting),
  };
}

/** Plans deletions of pods that are not being deleted yet. */
export function planDeletions(pods: readonly PodFact[], because: DeleteReason): JobStep[] {
  return pods.filter(({ deleting }) => !deleting).map((pod) => deletion(pod, because));
}

/**
 * Plans forced deletions of deleted pods whose end cannot be reported: their machine is gone, or has been silent for longer than the policy allows. The machine
 * gets no work until it answers again, and then it ends pods that the API server does not list.
 */
export function planForcedDeletions(
  pods: readonly PodFact[],
  nodesLost: readonly string[],
): Extract<JobStep, { kind: "force-pod" }>[] {
  return pods
    .filter((pod) => pod.deleting && canRun(pod) && pod.node !== undefined && nodesLost.includes(pod.node))
    .map(({ name, uid }) => ({ kind: "force-pod", pod: name, uid, because: "machine-lost" }));
}

type TypeWorld = MachinePlaces & {
  readonly spec: JobSpec;
  readonly status: JobStatus;
  readonly replica: ReplicaSpec;
  readonly seen: ReplicaSeen;
  readonly mayCreate: boolean;
  readonly policy: JobPolicy;
};

function planType(snapshot: Snapshot, world: TypeWorld): PodPlan {
  const { replica, seen, status, machines, mayCreate } = world;
  const progress = findReplicaStatus(status, replica.type);
  const completed = new Set(progress?.completedIndexes);
  const steps: JobStep[] = seen.surplus
    .filter(({ pod }) => !pod.deleting)
    .map(({ pod, because }) => deletion(pod, because));
  const missing: PodOrder[] = [];
  // These pods occupy the names.
  const taken = new Set([...snapshot.unreadable, ...snapshot.released].map(({ name }) => name));
  const dueMs: number[] = [];
  let restarting = false;
  seen.slots.forEach((pod, index) => {
    if (pod === undefined) {
      const member = { type: replica.type, index };
      const machine = machines.get(buildComponentName(member));
      if (completed.has(index) || !mayCreate) return;
      if (machine === undefined) {
        restarting ||= status.replaced.includes(buildComponentName(member));
        return;
      }
      if (taken.has(buildMemberName(snapshot.job, member))) return;
      const untilMs = progress && computeNotRecreatedBeforeMs(progress, index, world.policy, snapshot.nowMs);
      if (untilMs === undefined)
        missing.push({ ...member, node: machine.node, ...(machine.isShared && { isShared: true }) });
      else {
        restarting = true;
        dueMs.push(untilMs);
      }
      return;
    }
    if (pod.deleting) {
      restarting ||= pod.phase === "Failed" && hasEndedByItself(pod) && !completed.has(index);
      return;
    }
    if (completed.has(index)) {
      // The pod of a completed member stays, for its logs; a pod that was created after the completion does not.
      if (!hasMainSucceeded(pod, replica)) steps.push(deletion(pod, "already-completed"));
      return;
    }
    if (pod.preempted && !isActive(pod)) {
      steps.push(deletion(pod, "preempted"));
      return;
    }
    if (isMisplaced(snapshot, pod, world)) {
      restarting = true;
      steps.push(deletion(pod, "machine-lost"));
      return;
    }
    if (pod.phase !== "Failed") return;
    restarting = true;
    const verdict = decidePodFailure(pod, replica, world.spec);
    // The pause of the gang decides when it recreates all pods, including this one.
    if (verdict.action !== "restart-pod") return;
    const { counts } = verdict;
    const atMs = decideEndMs(pod, snapshot.nowMs) + computeMemberPauseMs(progress, { index, counts }, world.policy);
    if (atMs > snapshot.nowMs) dueMs.push(atMs);
    else steps.push(deletion(pod, "failed"));
  });
  if (missing.length > 0) {
    steps.push({ kind: "create-pods", pods: missing, attempt: status.attempt, because: "missing" });
  }
  return { steps, dueMs, restarting };
}

function isDependencyMet(
  { type, status: wanted }: ReplicaSpec["dependsOn"][number],
  snapshot: Snapshot,
  spec: JobSpec,
  status: JobStatus,
): boolean {
  const other = spec.replicas.find((replica) => replica.type === type);
  const members = other === undefined ? 0 : listPresentMembers(snapshot, status, other).length;
  const progress = findReplicaStatus(status, type);
  if (progress === undefined) return members === 0;
  return (wanted === "Complete" ? progress.succeeded : progress.succeeded + progress.ready) >= members;
}

/** Whether the pod's member has completed; the pod then survives a new attempt, for its logs. */
function hasCompleted({ phase, component }: PodFact, status: JobStatus): boolean {
  const [, type = "", index = ""] = /^(.*)-([^-]*)$/.exec(component) ?? [];
  return phase === "Succeeded" && findReplicaStatus(status, type)?.completedIndexes.includes(Number(index)) === true;
}

function findReplicaStatus(status: JobStatus, type: string): ReplicaStatus | undefined {
  return status.replicas.find((replica) => replica.type === type);
}

function deletion(pod: PodFact, because: DeleteReason): JobStep {
  // Expectations are counted by the type in the labels.
  const type = pod.component.replace(/-[^-]*$/, "");
  return { kind: "delete-pod", pod: pod.name, uid: pod.uid, type, because };
}
