import { restartsOf } from "./decide-outcome.ts";
import { conditionOf, isTrue, type JobStatus } from "./job-status.ts";

export type JobState = "Queued" | "Starting" | "Running" | "Restarting" | "Suspended" | "Succeeded" | "Failed";

/** How a job stands in one word, why, and in two numbers: for tables. */
export type StateSummary = {
  readonly state: JobState;
  readonly message: string;
  readonly completions: string;
  readonly restarts: number;
};

/** `total` is how many pods the spec asks for. */
export function summariseState(status: JobStatus, total: number): StateSummary {
  const state = stateOf(status);
  const succeeded = status.replicas.reduce((sum, replica) => sum + replica.succeeded, 0);
  const isWaiting = state === "Queued" || state === "Starting";
  const waitsFor = isTrue(status, "PodNamesTaken") ? "PodNamesTaken" : "MachinesReserved";
  const said = conditionOf(status, isWaiting ? waitsFor : state);
  return { state, message: said?.message ?? "", completions: `${succeeded}/${total}`, restarts: restartsOf(status) };
}

function stateOf(status: JobStatus): JobState {
  const first = (["Succeeded", "Failed", "Suspended", "Restarting", "Running"] as const).find((type) =>
    isTrue(status, type),
  );
  return first ?? (isTrue(status, "MachinesReserved") ? "Starting" : "Queued");
}
