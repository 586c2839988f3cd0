import { isFinished, type Condition, type ConditionType, type JobStatus } from "./job-status.ts";

export type ConditionChange = {
  readonly type: ConditionType;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
};

/** No two of these are true at once: the later one takes the earlier one away. */
const RIVALS: Partial<Record<ConditionType, ConditionType>> = { Running: "Restarting", Restarting: "Running" };

/** Of no meaning once a job is over, or suspended. */
const PASSING: ReadonlySet<ConditionType> = new Set([
  "MachinesReserved",
  "Restarting",
  "PodNamesTaken",
  "PodsWaiting",
  "SpecUnreadable",
]);

/** Whole lists of problems, and whatever container runtimes say, go into messages. */
const MESSAGE_LENGTH_MOST = 1024;

/**
 * The status with this condition, whose message is cut where it is too long. The same condition again changes nothing, not even a time. A finished job stays as it is: whoever comes second with another outcome
 * is not heard.
 */
export function transitionConditions(status: JobStatus, wanted: ConditionChange, nowMs: number): JobStatus {
  if (isFinished(status)) return status;
  const change = { ...wanted, message: wanted.message.slice(0, MESSAGE_LENGTH_MOST) };
  const before = status.conditions.find(({ type }) => type === change.type);
  if (before?.status === change.status && before.reason === change.reason && before.message === change.message) {
    return status;
  }
  const atMs = wholeSecond(nowMs);
  if (before?.status === change.status) {
    const after = { ...before, ...change, lastUpdateMs: atMs };
    return { ...status, conditions: status.conditions.map((each) => (each === before ? after : each)) };
  }
  const others = status.conditions.filter(({ type }) => type !== change.type);
  const condition = { ...change, lastUpdateMs: atMs, lastTransitionMs: atMs };
  return { ...status, conditions: [...(change.status === "True" ? yieldTo(others, change, atMs) : others), condition] };
}

/** What is no longer true once this is. */
function yieldTo(others: readonly Condition[], change: ConditionChange, atMs: number): Condition[] {
  const rival = RIVALS[change.type];
  const ends = change.type === "Succeeded" || change.type === "Failed" || change.type === "Suspended";
  return others
    .filter(({ type }) => type !== rival && !(ends && PASSING.has(type)))
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

/** A time in the future is by the clock of another leader: it keeps the text no longer than one in the past. */
export function wasSaidLately({ lastUpdateMs }: Condition, nowMs: number, policy: { explainEveryMs: number }): boolean {
  return Math.abs(nowMs - lastUpdateMs) < policy.explainEveryMs;
}

/** As the API server keeps times; without this, what was written would differ from what is read again. */
export function wholeSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}
