import { findCondition, isTrue, type ConditionType, type JobStatus } from "./job-status.ts";
import type { Problem } from "./kind.ts";

/** A change of the status, for events and counters. */
export type StatusChange = {
  readonly kind: ConditionType | "Resumed" | "Warning";
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
};

const WARNING_CONDITIONS: ReadonlySet<ConditionType> = new Set([
  "Failed",
  "Restarting",
  "PodNamesTaken",
  "PodsWaiting",
  "Requeued",
]);
/** Reasons that make a condition, which is usually good, a Warning. */
const WARNING_REASONS: ReadonlySet<string> = new Set(["RightsMissing", "InvalidSpec"]);

/** Returns the changes of a replaced status: each condition that has become true, and warnings about a new generation of the spec. Empty without a change. */
export function findStatusChanges(
  before: JobStatus,
  after: JobStatus,
  warnings: readonly Problem[],
): readonly StatusChange[] {
  const newWarnings = before.observedGeneration === after.observedGeneration ? [] : warnings;
  return [
    ...newWarnings.map(({ field, reason }): StatusChange => ({
      kind: "Warning",
      type: "Warning",
      reason: "SpecWarning",
      message: `${field}: ${reason}`,
    })),
    ...after.conditions.flatMap(({ type, reason, message }): StatusChange[] => {
      if (type === "Suspended" && isTrue(before, "Suspended") && !isTrue(after, "Suspended"))
        return [{ kind: "Resumed", type: "Normal", reason, message }];
      if (!hasBecomeTrue(type, before, after)) return [];
      const isBad = WARNING_CONDITIONS.has(type) || WARNING_REASONS.has(reason);
      // The reason of the condition is the ledger's code, which does not name the event.
      const title = type === "Preempted" ? type : reason;
      return [{ kind: type, type: isBad ? "Warning" : "Normal", reason: title, message }];
    }),
  ];
}

function hasBecomeTrue(type: ConditionType, before: JobStatus, after: JobStatus): boolean {
  if (!isTrue(after, type)) return false;
  if (!isTrue(before, type)) return true;
  // A job may restart again during a restart, and a job with machines may lack something else.
  if (type === "Restarting") return restarts(after) > restarts(before);
  // A second wrong value, preemption or timeout may replace the first one before the job runs again.
  if (type === "SpecUnreadable" || type === "Preempted" || type === "Requeued")
    return findCondition(before, type)?.message !== findCondition(after, type)?.message;
  return type === "MachinesReserved" && findCondition(before, type)?.reason !== findCondition(after, type)?.reason;
}

function restarts({ attempt, replicas }: JobStatus): number {
  return replicas.reduce((sum, replica) => sum + replica.restarts, attempt);
}
