import { MAX_CLOCK_SKEW_MS, decideEndMs } from "./decide-end-time.ts";
import { decidePodFailure, hasEndedByItself } from "./decide-pod-failure.ts";
import { countRestarts } from "./decide-outcome.ts";
import { describeContainerEnd } from "./describe-end.ts";
import type { JobSpec } from "./job.ts";
import type { JobStatus, ReplicaStatus } from "./job-status.ts";
import type { JobPolicy, PodFact } from "./snapshot.ts";

/** The first restart of failed pods. */
export type NextRestart = {
  readonly atMs: number;
  /** The number of the restart against backoffLimit; undefined if it does not count. */
  readonly number: number | undefined;
  /** backoffLimit; undefined means no limit. */
  readonly limit: number | undefined;
  /** Describes how the pod ended. */
  readonly because: string;
};

export type RestartPauses = Pick<JobPolicy, "restartBackoffMs" | "maxRestartBackoffMs">;

/**
 * Decides when failed members restart, or the whole gang if a rule demands it; undefined if nothing restarts. `pods` are the members, in the order of the spec;
 * `status` already has their failures.
 */
export function decideRestart(
  job: { readonly spec: JobSpec; readonly status: JobStatus; readonly pods: readonly PodFact[] },
  policy: RestartPauses,
  nowMs: number,
): NextRestart | undefined {
  const { spec, status, pods } = job;
  const limit = spec.backoffLimit;
  const counted = countRestarts(status);
  let first: NextRestart | undefined;
  for (const replica of spec.replicas) {
    const progress = status.replicas.find(({ type }) => type === replica.type);
    const completed = progress?.completedIndexes ?? [];
    for (const pod of pods) {
      const [, type, index] = /^(.*)-([^-]*)$/.exec(pod.component) ?? [];
      if (type !== replica.type || completed.includes(Number(index))) continue;
      if (pod.phase !== "Failed" || !hasEndedByItself(pod) || pod.attempt !== status.attempt) continue;
      const verdict = decidePodFailure(pod, replica, spec);
      if (verdict.action === "fail-job") return undefined;
      const endMs = decideEndMs(pod, nowMs);
      const because = describeContainerEnd(pod, replica.mainContainer);
      if (verdict.action === "restart-job")
        return { atMs: computeGangRestartMs(endMs, status, policy), number: counted + 1, limit, because };
      const atMs = endMs + computeMemberPauseMs(progress, { index: Number(index), counts: verdict.counts }, policy);
      if (first === undefined || atMs < first.atMs)
        first = { atMs, number: verdict.counts ? counted : undefined, limit, because };
    }
  }
  return first;
}

/** Returns when a gang restarts because of a pod that ended at `endMs`. */
export function computeGangRestartMs(endMs: number, { attemptsCounted }: JobStatus, policy: RestartPauses): number {
  return endMs + computeRestartPauseMs(attemptsCounted + 1, policy);
}

/** Returns the pause before a restart. For a counted end it grows with the failures of the type, otherwise with the member's consecutive uncounted ends. */
export function computeMemberPauseMs(
  progress: ReplicaStatus | undefined,
  end: { readonly index: number; readonly counts: boolean },
  policy: RestartPauses,
): number {
  const inARow = progress?.uncounted.find(({ index }) => index === end.index)?.times;
  return computeRestartPauseMs((end.counts ? progress?.restarts : inARow) ?? 0, policy);
}

/** Returns the time before which a member with a lost or deleted pod is not recreated; undefined if it may be recreated now. */
export function computeNotRecreatedBeforeMs(
  { uncounted }: ReplicaStatus,
  member: number,
  policy: RestartPauses,
  nowMs: number,
): number | undefined {
  const last = uncounted.find(({ index }) => index === member);
  // A time far in the future comes from another leader's clock.
  if (last === undefined || last.atMs > nowMs + MAX_CLOCK_SKEW_MS) return undefined;
  const untilMs = last.atMs + computeRestartPauseMs(last.times, policy);
  return untilMs > nowMs ? untilMs : undefined;
}

/** Returns the pause between the end of a pod and its replacement. The pod is kept until then: users find its logs, and its end needs no other record. */
export function computeRestartPauseMs(failures: number, policy: RestartPauses): number {
  const doublings = Math.min(Math.max(0, failures - 1), 30);
  return Math.min(policy.restartBackoffMs * 2 ** doublings, policy.maxRestartBackoffMs);
}
