import { buildComponentName } from "./build-units.ts";
import { decideEndMs } from "./decide-end-time.ts";
import { decidePodFailure, hasEndedByItself, hasMainSucceeded, type FailReason } from "./decide-pod-failure.ts";
import { describeContainerEnd, describeLastEnd } from "./describe-end.ts";
import type { JobSpec, SuccessRule } from "./job.ts";
import { findCondition, type JobStatus, type UncountedReason } from "./job-status.ts";
import { listPresentMembers } from "./present-members.ts";
import type { JobPolicy, Snapshot } from "./snapshot.ts";

/** The state of the job: finished, due for a restart of the gang, or neither. */
export type JobOutcome =
  | { readonly kind: "succeeded"; readonly message: string }
  | {
      readonly kind: "failed";
      readonly reason: FailReason | "BackoffLimitExceeded" | "UncountedRestartsExceeded" | "DeadlineExceeded";
      readonly message: string;
    }
  | {
      /** A restart of the gang counts as one failure. */
      readonly kind: "restarting";
      readonly message: string;
      /** The time at which the pod that caused the restart ended. */
      readonly sinceMs: number;
    }
  | { readonly kind: "going-on" };

/**
 * Decides whether a job is finished. The order of checks is fixed: success; failures by replica type and index; backoffLimit; the limit of uncounted restarts;
 * the deadline. `status` already has the counts of this pass.
 */
export function decideOutcome(
  snapshot: Snapshot,
  spec: JobSpec,
  status: JobStatus,
  policy: Pick<JobPolicy, "maxUncountedRestarts">,
): JobOutcome {
  const won = spec.success.find((rule) => holds(rule, snapshot, spec, status));
  if (won !== undefined) return { kind: "succeeded", message: `${describeRule(won)} completed` };
  const failed = decideFailures(snapshot, spec, status);
  if (failed?.kind === "failed") return failed;
  const restarts = countRestarts(status) + (failed === undefined ? 0 : 1);
  if (spec.backoffLimit !== undefined && restarts > spec.backoffLimit) {
    const counted = `${restarts} ${restarts === 1 ? "failure" : "failures"}, and backoffLimit is ${spec.backoffLimit}`;
    const message = [counted, describeFailure(snapshot, spec, status)].filter((part) => part !== "").join("; ");
    return { kind: "failed", reason: "BackoffLimitExceeded", message };
  }
  const endless = decideEndless(status, policy);
  if (endless !== undefined) return endless;
  if (status.startMs !== undefined && spec.activeDeadlineMs !== undefined) {
    const overMs = status.startMs + spec.activeDeadlineMs;
    if (snapshot.nowMs >= overMs) {
      const active = `active for longer than activeDeadlineSeconds, ${spec.activeDeadlineMs / 1000}`;
      // The end removes this condition, which may explain why the time ran out.
      const waits = findCondition(status, "PodsWaiting")?.message;
      const message = waits === undefined ? active : `${active}; ${waits}`;
      return { kind: "failed", reason: "DeadlineExceeded", message };
    }
  }
  return failed ?? { kind: "going-on" };
}

/** Describes how one of the failed pods ended; empty if no failed pod still exists. */
function describeFailure(snapshot: Snapshot, spec: JobSpec, { attempt }: JobStatus): string {
  const ends = spec.replicas
    .filter(({ failuresIgnored }) => !failuresIgnored)
    .flatMap((replica) => {
      const slots = snapshot.replicas.find(({ type }) => type === replica.type)?.slots ?? [];
      return slots.flatMap((pod) => {
        if (pod?.attempt !== attempt || hasMainSucceeded(pod, replica)) return [];
        const describe = pod.phase === "Failed" ? describeContainerEnd : describeLastEnd;
        return describe(pod, replica.mainContainer);
      });
    });
  return ends.find((end) => end !== "") ?? "";
}

/** Counts failures against the limit: failures of pods, in place or recreated, and of whole attempts. */
export function countRestarts(status: JobStatus): number {
  return status.replicas.reduce((sum, { restarts }) => sum + restarts, status.attemptsCounted);
}

const WHY_UNCOUNTED: Record<Exclude<UncountedReason, "failures-ignored">, string> = {
  "failure-policy": "a failure rule has the action Ignore",
  disrupted: "the pod was disrupted",
  "machine-lost": "the machine was lost",
};

/** Limits uncounted restarts. Types whose kind ignores their failures have no such limit. */
function decideEndless(
  { replicas }: JobStatus,
  { maxUncountedRestarts: maxUncountedRestarts }: Pick<JobPolicy, "maxUncountedRestarts">,
): Extract<Ended, { kind: "failed" }> | undefined {
  for (const { type, uncounted } of replicas) {
    for (const { index, times, because } of uncounted) {
      if (because === "failures-ignored" || times <= maxUncountedRestarts) continue;
      const row = `${buildComponentName({ type, index })} ended ${times} times in a row without that counting`;
      const message = `${row}, the last time because ${WHY_UNCOUNTED[because]}, and the limit is ${maxUncountedRestarts}`;
      return { kind: "failed", reason: "UncountedRestartsExceeded", message };
    }
  }
  return undefined;
}

type Ended = Extract<JobOutcome, { kind: "failed" | "restarting" }>;

function decideFailures(
  snapshot: Snapshot,
  spec: JobSpec,
  status: JobStatus,
): Extract<Ended, { kind: "failed" }> | Extract<Ended, { kind: "restarting" }> | undefined {
  let restart: Extract<Ended, { kind: "restarting" }> | undefined;
  for (const replica of spec.replicas) {
    const slots = snapshot.replicas.find(({ type }) => type === replica.type)?.slots ?? [];
    for (const pod of slots) {
      if (pod?.phase !== "Failed" || !hasEndedByItself(pod) || pod.attempt !== status.attempt) continue;
      if (hasMainSucceeded(pod, replica)) continue;
      const verdict = decidePodFailure(pod, replica, spec);
      if (verdict.action === "fail-job") return { kind: "failed", reason: verdict.reason, message: verdict.message };
      if (verdict.action === "restart-job") {
        restart ??= {
          kind: "restarting",
          message: `${describeContainerEnd(pod, replica.mainContainer)}, and a failure rule has the action RestartJob`,
          sinceMs: decideEndMs(pod, snapshot.nowMs),
        };
      }
    }
  }
  return restart;
}

function holds(rule: SuccessRule, snapshot: Snapshot, spec: JobSpec, status: JobStatus): boolean {
  return rule.every(({ type, indexes }) => {
    const completed = status.replicas.find((replica) => replica.type === type)?.completedIndexes ?? [];
    const replica = spec.replicas.find((each) => each.type === type);
    if (indexes === "all") {
      return (
        replica === undefined ||
        listPresentMembers(snapshot, status, replica).every((index) => completed.includes(index))
      );
    }
    if (indexes === "any") return completed.some((index) => index < (replica?.replicas ?? 0));
    return indexes.every((index) => completed.includes(index));
  });
}

function describeRule(rule: SuccessRule): string {
  return rule
    .map(({ type, indexes }) => {
      if (indexes === "all") return `every ${type}`;
      return indexes === "any" ? `one ${type}` : `${type} ${indexes.join(", ")}`;
    })
    .join(" and ");
}
