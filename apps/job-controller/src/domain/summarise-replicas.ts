import { decidePodFailure, hasEndedByItself, hasMainSucceeded, isDisrupted } from "./decide-pod-failure.ts";
import { isRestartedInPlace, type JobSpec, type ReplicaSpec } from "./job.ts";
import { isActive } from "./job-pods.ts";
import { isRemembered, type JobStatus, type ReplicaStatus } from "./job-status.ts";
import type { PodFact, ReplicaSeen } from "./snapshot.ts";

/**
 * Summarises the progress of each type. Completed indexes are kept when their pods are deleted or the type loses the index. Each failure counts once, even
 * after the deletion of the pod. Types outside the spec follow the types of the spec, with their history.
 */
export function summariseReplicas(
  spec: JobSpec,
  status: JobStatus,
  seen: readonly ReplicaSeen[],
): readonly ReplicaStatus[] {
  const wanted = spec.replicas.map((replica) => {
    const before = status.replicas.find(({ type }) => type === replica.type);
    const slots = seen.find(({ type }) => type === replica.type)?.slots ?? [];
    return summarise({ spec, replica, before, slots, attempt: status.attempt });
  });
  const others = status.replicas.filter((each) => spec.replicas.every(({ type }) => type !== each.type));
  return [
    ...wanted,
    ...others.filter(isRemembered).map((each) => ({ ...each, active: 0, ready: 0, succeeded: 0, failed: 0 })),
  ];
}

type Summary = {
  readonly spec: JobSpec;
  readonly replica: ReplicaSpec;
  readonly before: ReplicaStatus | undefined;
  readonly slots: ReplicaSeen["slots"];
  readonly attempt: number;
};

function summarise({ spec, replica, before, slots, attempt }: Summary): ReplicaStatus {
  const pods = slots.filter((pod) => pod !== undefined);
  // Pods of an earlier attempt end because of the restart, which is not their failure.
  const current = pods.filter((pod) => pod.attempt === attempt);
  const completed = new Set(before?.completedIndexes);
  slots.forEach((pod, index) => {
    if (pod?.attempt === attempt && hasMainSucceeded(pod, replica)) completed.add(index);
  });
  const counts = current.map((pod) => ({ pod: pod.uid, failures: countFailures(pod, replica, spec) }));
  const countedBefore = new Map(before?.counted.map(({ pod, failures }) => [pod, failures]));
  const fresh = counts.map(({ pod, failures }) => Math.max(0, failures - (countedBefore.get(pod) ?? 0)));
  return {
    type: replica.type,
    active: current.filter(isActive).length,
    ready: current.filter((pod) => isActive(pod) && pod.ready).length,
    succeeded: [...completed].filter((index) => index < replica.replicas).length,
    failed: current.filter((pod) => pod.phase === "Failed" && !hasMainSucceeded(pod, replica)).length,
    restarts: (before?.restarts ?? 0) + fresh.reduce((sum, more) => sum + more, 0),
    completedIndexes: [...completed].sort((a, b) => a - b),
    counted: counts
      .map(({ pod, failures }) => ({ pod, failures: Math.max(failures, countedBefore.get(pod) ?? 0) }))
      .filter(({ failures }) => failures > 0)
      .sort((a, b) => (a.pod < b.pod ? -1 : 1)),
    uncounted: before?.uncounted ?? [],
  };
}

/**
 * Counts each failure of this pod when it is first observed: restarts in place, which the kubelet reports, and the end of the pod, after which the controller
 * recreates it.
 */
function countFailures(pod: PodFact, replica: ReplicaSpec, spec: JobSpec): number {
  if (replica.failuresIgnored) return 0;
  return failuresInPlace(pod, replica) + (isEndCounted(pod, replica, spec) ? 1 : 0);
}

/** The end of a container in a deleted pod does not count. Under the other policies only sidecars restart, whose failures do not matter. */
function failuresInPlace(pod: PodFact, { restartPolicy }: ReplicaSpec): number {
  if (!isRestartedInPlace(restartPolicy)) return 0;
  return pod.containerRestarts + (pod.deleting || pod.preempted || isDisrupted(pod) ? 0 : pod.down.length);
}

function isEndCounted(pod: PodFact, replica: ReplicaSpec, spec: JobSpec): boolean {
  if (pod.phase !== "Failed" || !hasEndedByItself(pod) || hasMainSucceeded(pod, replica)) return false;
  const verdict = decidePodFailure(pod, replica, spec);
  return verdict.action === "restart-pod" && verdict.counts;
}
