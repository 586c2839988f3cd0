import { isFinished, type Condition, type ConditionType, type JobStatus, type RestartNumber } from "./job-status.ts";

type ConditionChange = {
  readonly type: ConditionType;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
  readonly restart?: RestartNumber;
};

/** Pairs of conditions that exclude each other: the later one removes the earlier one. */
const RIVALS: Partial<Record<ConditionType, ConditionType>> = { Running: "Restarting", Restarting: "Running" };

/** Conditions without a meaning once a job is finished, suspended, preempted or requeued. */
const TEMPORARY: ReadonlySet<ConditionType> = new Set([
  "MachinesReserved",
  "Restarting",
  "PodNamesTaken",
  "PodsWaiting",
  "SpecUnreadable",
  "Preempted",
  "Requeued",
]);

/** Conditions that state that no pod of the job runs. */
const ENDS: ReadonlySet<ConditionType> = new Set(["Succeeded", "Failed", "Suspended", "Preempted", "Requeued"]);

/** The limit exists because lists of problems, and messages of container runtimes, can be long. */
const MAX_MESSAGE_LENGTH = 1024;

/**
 * Returns the status with this condition, its message truncated. An equal condition has no effect, not even on a time. A finished job never changes: a second
 * outcome is ignored.
 */
export function transitionConditions(status: JobStatus, wanted: ConditionChange, nowMs: number): JobStatus {
  if (isFinished(status)) return status;
  const change = { ...wanted, message: wanted.message.slice(0, MAX_MESSAGE_LENGTH) };
  const before = status.conditions.find(({ type }) => type === change.type);
  if (before?.status === change.status && before.reason === change.reason && before.message === change.message) {
    return status;
  }
  const atMs = roundToSecond(nowMs);
  if (before?.status === change.status) {
    const after = { ...change, lastUpdateMs: atMs, lastTransitionMs: before.lastTransitionMs };
    return { ...status, conditions: status.conditions.map((each) => (each === before ? after : each)) };
  }
  const others = status.conditions.filter(({ type }) => type !== change.type);
  const condition = { ...change, lastUpdateMs: atMs, lastTransitionMs: atMs };
  return {
    ...status,
    conditions: [...(change.status === "True" ? withoutContradictions(others, change, atMs) : others), condition],
  };
}

/** Returns the conditions that remain true together with this one. */
function withoutContradictions(others: readonly Condition[], change: ConditionChange, atMs: number): Condition[] {
  const rival = RIVALS[change.type];
  const ends = ENDS.has(change.type);
  return others
    .filter(({ type }) => type !== rival && !(ends && TEMPORARY.has(type)))
    .map((other) =>
      ends && other.type === "Running" && other.status === "True"
        ? {
            ...other,
            status: "False",
            reason: change.reason,
            message: change.message,
            lastUpdateMs: atMs,
            lastTransitionMs: atMs,
          }
        : other,
    );
}

/** Whether a text was written recently. A time in the future, by another leader's clock, delays the next text no longer than a time in the past. */
export function wasWrittenRecently(
  { lastUpdateMs }: Condition,
  nowMs: number,
  policy: { explainEveryMs: number },
): boolean {
  return Math.abs(nowMs - lastUpdateMs) < policy.explainEveryMs;
}

/** Rounds to the precision of the API server; otherwise a status would differ from the same status read again. */
export function roundToSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}
