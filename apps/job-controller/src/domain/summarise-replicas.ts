import { decideFailure, endedByItself, endedWell, isDisrupted } from "./decide-failure.ts";
import { runsAgainInPlace, type JobSpec, type ReplicaSpec } from "./job.ts";
import { isRemembered, type JobStatus, type ReplicaStatus } from "./job-status.ts";
import type { PodFact, ReplicaSeen } from "./snapshot.ts";

/**
 * How far each type is. What has happened once stays: completed indexes are kept when their pods go, or the type has no such index any more, and each failure is counted
 * once, however often it is seen and whatever becomes of the pod. So do types that the spec has not any more, after its own, with what is remembered of them.
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
  // Pods of an earlier attempt of the gang end because of it; that is not their failure.
  const current = pods.filter((pod) => pod.attempt === attempt);
  const completed = new Set(before?.completedIndexes);
  slots.forEach((pod, index) => {
    if (pod?.attempt === attempt && endedWell(pod, replica)) completed.add(index);
  });
  const counts = current.map((pod) => ({ pod: pod.uid, failures: failuresOf(pod, replica, spec) }));
  const countedBefore = new Map(before?.counted.map(({ pod, failures }) => [pod, failures]));
  const fresh = counts.map(({ pod, failures }) => Math.max(0, failures - (countedBefore.get(pod) ?? 0)));
  return {
    type: replica.type,
    active: current.filter(isActive).length,
    ready: current.filter((pod) => isActive(pod) && pod.ready).length,
    succeeded: [...completed].filter((index) => index < replica.replicas).length,
    failed: current.filter((pod) => pod.phase === "Failed" && !endedWell(pod, replica)).length,
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
 * Failures of this one pod that count, each as soon as it is seen, whoever runs again what failed: in place the kubelet, which says so only when it does, and the controller by
 * making the pod anew.
 */
function failuresOf(pod: PodFact, replica: ReplicaSpec, spec: JobSpec): number {
  if (replica.failuresIgnored) return 0;
  return failuresInPlace(pod, replica) + (countsItsEnd(pod, replica, spec) ? 1 : 0);
}

/** What ends in a pod that is taken away ends for that reason. Under the other policies only sidecars are started again, and they are not the work. */
function failuresInPlace(pod: PodFact, { restartPolicy }: ReplicaSpec): number {
  if (!runsAgainInPlace(restartPolicy)) return 0;
  return pod.containerRestarts + (pod.deleting || isDisrupted(pod) ? 0 : pod.down.length);
}

function countsItsEnd(pod: PodFact, replica: ReplicaSpec, spec: JobSpec): boolean {
  if (pod.phase !== "Failed" || !endedByItself(pod) || endedWell(pod, replica)) return false;
  const verdict = decideFailure(pod, replica, spec);
  return verdict.action === "restart-pod" && verdict.counts;
}

export function isActive({ phase, deleting }: PodFact): boolean {
  return !deleting && phase !== "Succeeded" && phase !== "Failed";
}

/** Whether its containers may still run: as long as it is there and has not ended, whatever is said of its node. */
export function mayRun({ phase }: PodFact): boolean {
  return phase !== "Succeeded" && phase !== "Failed";
}
