import { decideEndMs } from "./decide-end-time.ts";
import { decidePodFailure, hasEndedByItself, hasMainSucceeded, isDisrupted } from "./decide-pod-failure.ts";
import type { JobSpec, ReplicaSpec } from "./job.ts";
import { canRun } from "./job-pods.ts";
import type { JobStatus, ReplicaStatus, UncountedRecreations, UncountedReason } from "./job-status.ts";
import type { JobPolicy, PodFact, Snapshot } from "./snapshot.ts";
import { roundToSecond } from "./transition-conditions.ts";

/**
 * Counts each pod that is recreated without counting against backoffLimit. A pod counts once by its uid, in however many passes and replicas. The count of a
 * member ends when the member completes, or has run for `calmAfterMs`. `status` already has the completed indexes of this pass.
 */
export function countUncounted(snapshot: Snapshot, spec: JobSpec, status: JobStatus, policy: JobPolicy): JobStatus {
  const replicas = status.replicas.map((progress): ReplicaStatus => {
    const replica = spec.replicas.find(({ type }) => type === progress.type);
    if (replica === undefined) return { ...progress, uncounted: [] };
    const slots = snapshot.replicas.find(({ type }) => type === replica.type)?.slots ?? [];
    const before = new Map(progress.uncounted.map((each) => [each.index, each]));
    const uncounted = slots.flatMap((pod, index): UncountedRecreations[] => {
      if (progress.completedIndexes.includes(index)) return [];
      const known = before.get(index);
      const isNew = pod !== undefined && pod.attempt === status.attempt && pod.uid !== known?.pod;
      const next = isNew ? recordUncounted({ index, pod, known, replica, spec }, snapshot, policy) : known;
      return next === undefined ? [] : [next];
    });
    return { ...progress, uncounted };
  });
  return { ...status, replicas };
}

type One = {
  readonly index: number;
  readonly pod: PodFact;
  readonly known: UncountedRecreations | undefined;
  readonly replica: ReplicaSpec;
  readonly spec: JobSpec;
};

function recordUncounted(
  { index, pod, known, replica, spec }: One,
  { nowMs, nodesLost }: Snapshot,
  policy: JobPolicy,
): UncountedRecreations | undefined {
  const isOver = !canRun(pod);
  const endMs = isOver ? decideEndMs(pod, nowMs) : nowMs;
  const wasCalm = pod.startedMs !== undefined && endMs - pod.startedMs >= policy.calmAfterMs;
  const because = whyUncounted(pod, replica, spec, nodesLost);
  if (because === undefined) return wasCalm ? undefined : known;
  const times = (wasCalm ? 0 : (known?.times ?? 0)) + 1;
  return { index, pod: pod.uid, times, atMs: roundToSecond(endMs), because };
}

/** Returns undefined if the pod runs, has succeeded, its end counts or ends the job, or another reason deleted it. */
function whyUncounted(
  pod: PodFact,
  replica: ReplicaSpec,
  spec: JobSpec,
  nodesLost: readonly string[],
): UncountedReason | undefined {
  if (pod.preempted || hasMainSucceeded(pod, replica)) return undefined;
  if (canRun(pod) && !pod.deleting)
    return nodesLost.includes(pod.node ?? pod.pinned ?? "") ? "machine-lost" : undefined;
  if (pod.deleting && !hasEndedByItself(pod) && !isDisrupted(pod)) return undefined;
  const verdict = decidePodFailure(pod, replica, spec);
  return verdict.action === "restart-pod" && !verdict.counts ? verdict.because : undefined;
}
