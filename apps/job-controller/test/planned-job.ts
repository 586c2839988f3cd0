import { JOB, NOW_MS, makePodFact, POLICY, makeReplicaSeen, makeSnapshot } from "./samples.ts";
import { buildOwnerId } from "../src/domain/build-units.ts";
import { NEW_STATUS, type JobStatus } from "../src/domain/job-status.ts";
import { planJob } from "../src/domain/plan-job.ts";
import type { JobStep } from "../src/domain/plan-steps.ts";
import type { Snapshot, UnitSeen } from "../src/domain/snapshot.ts";

/** The gang's unit with its id, and its possible states. */
export const GANG = buildOwnerId(JOB);
export const NONE: UnitSeen = { id: GANG, state: "none" };
export const makeWaitingUnit = (more: Partial<Extract<UnitSeen, { state: "waiting" | "refused" }>> = {}): UnitSeen => ({
  id: GANG,
  state: "waiting",
  components: ["worker-0", "worker-1"],
  because: { code: "POOL_AVAILABILITY", text: "2 of pool-a requested, 1 available" },
  sinceMs: NOW_MS - 1000,
  ...more,
});
/** Both pods, running. */
export const both = [makePodFact("worker-0"), makePodFact("worker-1")];

/** Formats a step as one line: kind, object and reason. */
export function printStep(step: JobStep): string {
  switch (step.kind) {
    case "reserve":
      return `reserve ${step.unit.needs.map(({ component }) => component).join("+")}: ${step.because}`;
    case "release":
      return `release ${step.unitId.replace(GANG, "gang")}: ${step.because}`;
    case "accept-preemption":
    case "requeue":
      return `${step.kind} of ${step.unitId.replace(GANG, "gang")}: ${step.because}`;
    case "create-pods":
      return `create ${step.pods.map(({ type, index, node, isShared }) => `${type}-${index} ${isShared === true ? "on a part of" : "on"} ${node}`).join(", ")}: ${step.because}`;
    case "delete-pod":
      return `delete ${step.pod}: ${step.because}`;
    case "force-pod":
      return `remove ${step.pod} by force: ${step.because}`;
    case "create-service":
    case "delete-service":
      return `${step.kind} ${step.service}: ${step.because}`;
    case "sync-budget":
      return `budget of ${step.minAvailable}: ${step.because}`;
    case "create-companions":
      return `create ${step.names.join(", ")}: ${step.because}`;
    case "sync-group":
      return `group of ${step.group.minMember}: ${step.because}`;
    case "delete-group":
    case "delete-budget":
    case "delete-job":
      return `${step.kind}: ${step.because}`;
  }
}

/** Plans the job of `samples.ts` with these changes: one line a step. */
export function planSteps(more: Partial<Snapshot>): string[] {
  return planJob(makeSnapshot({ budget: 2, ...more }), POLICY).steps.map(printStep);
}

/** Returns the true conditions, and the reasons of the others. */
export function listConditions(more: Partial<Snapshot>): string[] {
  return planJob(makeSnapshot(more), POLICY).status.conditions.map(({ type, status, reason }) =>
    status === "True" ? `${type}: ${reason}` : `not ${type}: ${reason}`,
  );
}

/** The condition of a finished job. */
export const succeeded = {
  type: "Succeeded",
  status: "True",
  reason: "JobSucceeded",
  message: "",
  lastUpdateMs: NOW_MS,
  lastTransitionMs: NOW_MS,
} as const;
/** The observed pods of its two workers. */
export const makeWorkers = (...slots: Parameters<typeof makeReplicaSeen>[1]) => ({
  replicas: [makeReplicaSeen("worker", slots)],
});
/** Builds a status with these fields. */
export const makeStatus = (more: Partial<JobStatus> = {}): JobStatus => ({ ...NEW_STATUS, ...more });
/** Builds a status in which these indexes have succeeded. */
export const makeDoneWorkers = (...completedIndexes: number[]): JobStatus =>
  makeStatus({
    replicas: [
      {
        type: "worker",
        active: 0,
        ready: 0,
        succeeded: 0,
        failed: 0,
        restarts: 0,
        completedIndexes,
        counted: [],
        uncounted: [],
      },
    ],
  });
