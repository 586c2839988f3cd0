import { CLOCKS_APART_MS, decideEndMs } from "./decide-end-time.ts";
import { decideFailure, endedByItself } from "./decide-failure.ts";
import { restartsOf } from "./decide-outcome.ts";
import { describeEnd } from "./describe-end.ts";
import type { JobSpec } from "./job.ts";
import type { JobStatus, ReplicaStatus } from "./job-status.ts";
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
      if (pod.phase !== "Failed" || !endedByItself(pod) || pod.attempt !== status.attempt) continue;
      const verdict = decideFailure(pod, replica, spec);
      if (verdict.action === "fail-job") return undefined;
      const endMs = decideEndMs(pod, nowMs);
      const because = describeEnd(pod, replica.mainContainer);
      if (verdict.action === "restart-job")
        return { atMs: gangRestartMs(endMs, status, policy), number: counted + 1, most, because };
      const atMs = endMs + memberPauseMs(far, { index: Number(index), counts: verdict.counts }, policy);
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

/** After an end that counts by the failures of its type, after another one by how often in a row its member had such. */
export function memberPauseMs(
  far: ReplicaStatus | undefined,
  end: { readonly index: number; readonly counts: boolean },
  policy: RestartPauses,
): number {
  const inARow = far?.uncounted.find(({ index }) => index === end.index)?.times;
  return restartPauseMs((end.counts ? far?.restarts : inARow) ?? 0, policy);
}

/** Until when a member whose pod was lost, or taken away by somebody else, is not made again; undefined: it may be. */
export function heldBackUntilMs(
  { uncounted }: ReplicaStatus,
  member: number,
  policy: RestartPauses,
  nowMs: number,
): number | undefined {
  const last = uncounted.find(({ index }) => index === member);
  // A time that lies far ahead is by the clock of another leader.
  if (last === undefined || last.atMs > nowMs + CLOCKS_APART_MS) return undefined;
  const untilMs = last.atMs + restartPauseMs(last.times, policy);
  return untilMs > nowMs ? untilMs : undefined;
}

/**
 * How long after its end a pod is made anew. Until then it is kept: whoever looks finds its logs, and the time needs no other place to be remembered in.
 */
export function restartPauseMs(failures: number, policy: RestartPauses): number {
  const doublings = Math.min(Math.max(0, failures - 1), 30);
  return Math.min(policy.restartBackoffMs * 2 ** doublings, policy.restartBackoffMostMs);
}
