import { countRestarts } from "./decide-outcome.ts";
import { findCondition, isTrue, type ConditionType, type JobStatus } from "./job-status.ts";

export type JobState =
  "Queued" | "Starting" | "Running" | "Restarting" | "Preempted" | "Suspended" | "Succeeded" | "Failed";

/** The state of a job as one word, its reason, and two numbers, for tables. */
type StateSummary = {
  readonly state: JobState;
  readonly message: string;
  readonly completions: string;
  readonly restarts: number;
};

/** `total`: the number of pods in the spec. */
export function summariseState(status: JobStatus, total: number): StateSummary {
  const state = decideState(status);
  const succeeded = status.replicas.reduce((sum, replica) => sum + replica.succeeded, 0);
  const condition = findCondition(status, findBlockingCondition(status, state) ?? conditionFor(state));
  return {
    state,
    message: condition?.message ?? "",
    completions: `${succeeded}/${total}`,
    restarts: countRestarts(status),
  };
}

/** Returns the condition that keeps a job with machines from running; undefined if none does. */
export function findBlockingCondition(status: JobStatus, state: JobState): ConditionType | undefined {
  if (state !== "Starting" && state !== "Running" && state !== "Restarting") return undefined;
  return (["SpecUnreadable", "PodNamesTaken", "PodsWaiting"] as const).find((type) => isTrue(status, type));
}

function conditionFor(state: JobState): ConditionType {
  return state === "Queued" || state === "Starting" ? "MachinesReserved" : state;
}

function decideState(status: JobStatus): JobState {
  const first = (["Succeeded", "Failed", "Suspended", "Restarting", "Running"] as const).find((type) =>
    isTrue(status, type),
  );
  if (first !== undefined) return first;
  // Once a preempted job waits again, it is Queued: MachinesReserved then has the reason of the wait.
  const reserved = findCondition(status, "MachinesReserved");
  if (reserved === undefined && isTrue(status, "Preempted")) return "Preempted";
  return reserved?.status === "True" ? "Starting" : "Queued";
}
