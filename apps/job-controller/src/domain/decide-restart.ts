import { decideEndMs } from "./decide-end-time.ts";
import { decideFailure } from "./decide-failure.ts";
import { restartsOf } from "./decide-outcome.ts";
import { describeEnd } from "./describe-end.ts";
import type { JobSpec } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import type { JobPolicy, PodFact } from "./snapshot.ts";

/** Pods that failed, and when the first of them is made anew. */
export type NextRestart = {
  readonly atMs: number;
  /** Its number in the budget; undefined when it does not count. */
  readonly number: number | undefined;
  /** The budget; undefined: there is no limit. */
  readonly most: number | undefined;
  /** How its pod ended. */
  readonly because: string;
};

export type RestartPauses = Pick<JobPolicy, "restartBackoffMs" | "restartBackoffMostMs">;

/**
 * Decides when what failed is made anew, the whole gang if a rule says so; undefined when nothing is to be. `pods` are the members, in the order of the spec; `status`
 * has their failures in it already.
 */
export function decideRestart(
  job: { readonly spec: JobSpec; readonly status: JobStatus; readonly pods: readonly PodFact[] },
  policy: RestartPauses,
  nowMs: number,
): NextRestart | undefined {
  const { spec, status, pods } = job;
  const most = spec.backoffLimit;
  const counted = restartsOf(status);
  let first: NextRestart | undefined;
  for (const replica of spec.replicas) {
    const far = status.replicas.find(({ type }) => type === replica.type);
    const completed = far?.completedIndexes ?? [];
    for (const pod of pods) {
      const [, type, index] = /^(.*)-([^-]*)$/.exec(pod.component) ?? [];
      if (type !== replica.type || completed.includes(Number(index))) continue;
      if (pod.phase !== "Failed" || pod.deleting || pod.attempt !== status.attempt) continue;
      const verdict = decideFailure(pod, replica, spec);
      if (verdict.action === "fail-job") return undefined;
      const endMs = decideEndMs(pod, nowMs);
      const because = describeEnd(pod, replica.mainContainer);
      if (verdict.action === "restart-job") {
        const number = verdict.counts ? counted + 1 : undefined;
        return { atMs: gangRestartMs(endMs, status, policy), number, most, because };
      }
      const failures = verdict.counts ? (far?.restarts ?? 0) : 0;
      const atMs = endMs + restartPauseMs(failures, policy);
      if (first === undefined || atMs < first.atMs)
        first = { atMs, number: verdict.counts ? counted : undefined, most, because };
    }
  }
  return first;
}

/** When a gang is made anew because of a pod that ended then. */
export function gangRestartMs(endMs: number, { attemptsCounted }: JobStatus, policy: RestartPauses): number {
  return endMs + restartPauseMs(attemptsCounted + 1, policy);
}

/**
 * How long after its end a pod is made anew. Until then it is kept: whoever looks finds its logs, and the time needs no other place to be remembered in.
 */
export function restartPauseMs(failures: number, policy: RestartPauses): number {
  const doublings = Math.min(Math.max(0, failures - 1), 30);
  return Math.min(policy.restartBackoffMs * 2 ** doublings, policy.restartBackoffMostMs);
}
