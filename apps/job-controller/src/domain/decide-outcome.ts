import { decideEndMs } from "./decide-end-time.ts";
import { decideFailure, endedWell, type FailReason } from "./decide-failure.ts";
import { describeEnd, describeLastEnd } from "./describe-end.ts";
import type { JobSpec, SuccessRule } from "./job.ts";
import { conditionOf, type JobStatus } from "./job-status.ts";
import { membersNow } from "./members-now.ts";
import type { Snapshot } from "./snapshot.ts";

/** How the job stands: over, to be made anew as a whole, or neither. */
export type Outcome =
  | { readonly is: "succeeded"; readonly message: string }
  | {
      readonly is: "failed";
      readonly reason: FailReason | "BackoffLimitExceeded" | "DeadlineExceeded";
      readonly message: string;
    }
  | {
      readonly is: "restarting";
      readonly counts: boolean;
      readonly message: string;
      /** When the pod ended because of which everything is made anew. */
      readonly sinceMs: number;
    }
  | { readonly is: "going-on" };

/**
 * Decides whether a job is over, always in one order: what has succeeded has succeeded, then failures in the order of the replica types and their indexes, then the
 * budget of restarts, then the deadline. `status` has this pass's counts in it already.
 */
export function decideOutcome(snapshot: Snapshot, spec: JobSpec, status: JobStatus): Outcome {
  const won = spec.success.find((rule) => holds(rule, snapshot, spec, status));
  if (won !== undefined) return { is: "succeeded", message: `${describeRule(won)} completed` };
  const failed = decideFailures(snapshot, spec, status);
  if (failed?.is === "failed") return failed;
  const restarts = restartsOf(status);
  if (spec.backoffLimit !== undefined && restarts + (failed?.counts === true ? 1 : 0) > spec.backoffLimit) {
    const counted = `${restarts + (failed?.counts === true ? 1 : 0)} failures, and backoffLimit is ${spec.backoffLimit}`;
    const message = [counted, describeFailure(snapshot, spec, status)].filter((part) => part !== "").join("; ");
    return { is: "failed", reason: "BackoffLimitExceeded", message };
  }
  if (status.startMs !== undefined && spec.activeDeadlineMs !== undefined) {
    const overMs = status.startMs + spec.activeDeadlineMs;
    if (snapshot.nowMs >= overMs) {
      const active = `active for longer than activeDeadlineSeconds, ${spec.activeDeadlineMs / 1000}`;
      // It goes away with the job, and may be why there was not time enough.
      const waits = conditionOf(status, "PodsWaiting")?.message;
      const message = waits === undefined ? active : `${active}; ${waits}`;
      return { is: "failed", reason: "DeadlineExceeded", message };
    }
  }
  return failed ?? { is: "going-on" };
}

/** How one of those that failed ended; empty when none of them is there any more. */
function describeFailure(snapshot: Snapshot, spec: JobSpec, { attempt }: JobStatus): string {
  const ends = spec.replicas
    .filter(({ failuresIgnored }) => !failuresIgnored)
    .flatMap((replica) => {
      const slots = snapshot.replicas.find(({ type }) => type === replica.type)?.slots ?? [];
      return slots.flatMap((pod) => {
        if (pod?.attempt !== attempt || endedWell(pod, replica)) return [];
        const describe = pod.phase === "Failed" ? describeEnd : describeLastEnd;
        return describe(pod, replica.mainContainer);
      });
    });
  return ends.find((end) => end !== "") ?? "";
}

/** Failures that count against the limit: of pods, in place or made anew, and of whole attempts. */
export function restartsOf(status: JobStatus): number {
  return status.replicas.reduce((sum, { restarts }) => sum + restarts, status.attemptsCounted);
}

type Ended = Extract<Outcome, { is: "failed" | "restarting" }>;

function decideFailures(
  snapshot: Snapshot,
  spec: JobSpec,
  status: JobStatus,
): Extract<Ended, { is: "failed" }> | Extract<Ended, { is: "restarting" }> | undefined {
  let restart: Extract<Ended, { is: "restarting" }> | undefined;
  for (const replica of spec.replicas) {
    const slots = snapshot.replicas.find(({ type }) => type === replica.type)?.slots ?? [];
    for (const pod of slots) {
      if (pod?.phase !== "Failed" || pod.deleting || pod.attempt !== status.attempt) continue;
      if (endedWell(pod, replica)) continue;
      const verdict = decideFailure(pod, replica, spec);
      if (verdict.action === "fail-job") return { is: "failed", reason: verdict.reason, message: verdict.message };
      if (verdict.action === "restart-job") {
        restart ??= {
          is: "restarting",
          counts: verdict.counts,
          message: `${describeEnd(pod, replica.mainContainer)}, and a failure rule says RestartJob`,
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
    if (indexes === "all") {
      const replica = spec.replicas.find((each) => each.type === type);
      return replica === undefined || membersNow(snapshot, status, replica).every((index) => completed.includes(index));
    }
    if (indexes === "any") return completed.length > 0;
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
