import { conditionOf, isTrue, type ConditionType, type JobStatus } from "./job-status.ts";
import type { Problem } from "./kind.ts";

/** Something that has become so, for events and counts. */
export type News = {
  readonly kind: ConditionType | "Resumed" | "Warning";
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
};

const BAD_NEWS: ReadonlySet<ConditionType> = new Set(["Failed", "Restarting", "PodNamesTaken", "PodsWaiting"]);
/** Words for what is wrong under a condition that is true of good jobs, too. */
const BAD_REASONS: ReadonlySet<string> = new Set(["RightsMissing", "InvalidSpec"]);

/**
 * What people are told once the second status stands in place of the first: each condition that has become true, and what the author of this generation of the spec may not
 * have meant. The same status again is no news.
 */
export function planNews(before: JobStatus, after: JobStatus, warnings: readonly Problem[]): readonly News[] {
  const said = before.observedGeneration === after.observedGeneration ? [] : warnings;
  return [
    ...said.map(({ field, reason }): News => ({
      kind: "Warning",
      type: "Warning",
      reason: "SpecWarning",
      message: `${field}: ${reason}`,
    })),
    ...after.conditions.flatMap(({ type, reason, message }): News[] => {
      if (type === "Suspended" && isTrue(before, "Suspended") && !isTrue(after, "Suspended"))
        return [{ kind: "Resumed", type: "Normal", reason, message }];
      if (!hasBecomeTrue(type, before, after)) return [];
      const isBad = BAD_NEWS.has(type) || BAD_REASONS.has(reason);
      return [{ kind: type, type: isBad ? "Warning" : "Normal", reason, message }];
    }),
  ];
}

function hasBecomeTrue(type: ConditionType, before: JobStatus, after: JobStatus): boolean {
  if (!isTrue(after, type)) return false;
  if (!isTrue(before, type)) return true;
  // A job may restart while it restarts; and one that has its machines may lack something else.
  if (type === "Restarting") return restarts(after) > restarts(before);
  return type === "MachinesReserved" && conditionOf(before, type)?.reason !== conditionOf(after, type)?.reason;
}

function restarts({ attempt, replicas }: JobStatus): number {
  return replicas.reduce((sum, replica) => sum + replica.restarts, attempt);
}
