import { expect, it } from "vitest";
import { explainJob, getJobPhase, type ObservedJobState } from "./explain-job.ts";
import { NEW_STATUS, type Condition, type ConditionType } from "./job-status.ts";

function job(
  state: ObservedJobState["state"],
  more: Partial<ObservedJobState> = {},
  ...conditions: readonly Condition[]
): ObservedJobState {
  return {
    ...{ kind: "job", name: "train", state, cancelRequested: false, waitingBecause: "", createdAtMs: 1000 },
    status: { ...NEW_STATUS, conditions },
    members: [],
    ...more,
  };
}

function condition(type: ConditionType, reason: string, message: string, status: "True" | "False" = "True"): Condition {
  return { type, status, reason, message, lastUpdateMs: 7000, lastTransitionMs: 7000 };
}

const WAITING = {
  code: "POOL_AVAILABILITY",
  message: "pool p has no machine free",
  components: ["worker-1"],
  pools: [],
};
const GRANTED = { ...WAITING, code: "" };
const MEMBERS = [
  { component: "worker-0", state: "RUNNING" },
  { component: "evaluation-0", state: "PENDING" },
];

it.each<[title: string, job: ObservedJobState, machines: typeof WAITING | undefined, code: string, message: string]>([
  ["is new", job("Queued"), undefined, "NOT_TAKEN_YET", "the job-controller has not requested its machines yet"],
  ["waits", job("Queued"), WAITING, "POOL_AVAILABILITY", "pool p has no machine free"],
  [
    "was refused by the ledger",
    job(
      "Queued",
      { waitingBecause: "pool p has 2 machines" },
      condition("MachinesReserved", "POOL_CAPACITY", "", "False"),
    ),
    undefined,
    "POOL_CAPACITY",
    "pool p has 2 machines",
  ],
  ["is suspended", job("Suspended"), undefined, "SUSPENDED", "it is suspended, and holds no machines"],
  ["is cancelled", job("Running", { cancelRequested: true }), GRANTED, "CANCELLING", "its cancellation is under way"],
  ["starts", job("Starting"), GRANTED, "MEMBERS_NOT_READY", "its machines are reserved; its pods are being started"],
  [
    "restarts",
    job("Restarting", {}, condition("Restarting", "JobRestarting", "failed pods are recreated")),
    GRANTED,
    "RESTARTING",
    "failed pods are recreated",
  ],
  [
    "restarts after a pause",
    job("Restarting", { waitingBecause: "restart 3 of 6 in 25 s" }, condition("Restarting", "R", "in 40 s")),
    GRANTED,
    "RESTARTING",
    "restart 3 of 6 in 25 s",
  ],
  [
    "restarts with a member that waits",
    job("Restarting", { members: MEMBERS }, condition("Restarting", "JobRestarting", "failed pods are recreated")),
    WAITING,
    "MEMBER_WAITS",
    "worker-1 waits for a machine: pool p has no machine free",
  ],
  [
    "runs with all of its members but one",
    job("Running", { members: MEMBERS }),
    GRANTED,
    "RUNNING",
    "its members run; 1 member not started yet: evaluation-0",
  ],
  [
    "runs with an unschedulable member",
    job("Running", { members: MEMBERS, waitingBecause: "pod train-worker-1: Unschedulable" }),
    GRANTED,
    "MEMBERS_NOT_READY",
    "pod train-worker-1: Unschedulable",
  ],
  [
    "runs with a new member that waits",
    job("Running", { members: MEMBERS }),
    WAITING,
    "MEMBER_WAITS",
    "worker-1 waits for a machine: pool p has no machine free",
  ],
  [
    "runs with an unreadable spec",
    job("Running", { waitingBecause: "why" }, condition("SpecUnreadable", "InvalidSpec", "sharing: must be shared")),
    WAITING,
    "SPEC_UNREADABLE",
    "sharing: must be shared",
  ],
  [
    "is over",
    job("Succeeded", {}, condition("Succeeded", "JobSucceeded", "every worker completed")),
    undefined,
    "FINISHED",
    "it is over: every worker completed",
  ],
  [
    "has failed",
    job("Failed", {}, condition("Failed", "DeadlineExceeded", "too long")),
    undefined,
    "FINISHED",
    "it is over, FAILED: DeadlineExceeded: too long",
  ],
  [
    "was cancelled",
    job("Failed", {}, condition("Failed", "Cancelled", "a user cancelled it")),
    undefined,
    "FINISHED",
    "it is over, CANCELLED: a user cancelled it",
  ],
])("explains a job that %s", (_title, each, machines, code, message) => {
  expect(explainJob(each, machines)).toMatchObject({ code, message });
});

it.each([
  ["POOL_UNKNOWN", "name a pool that exists: `muster pools` lists them"],
  ["POOL_CAPACITY", "request fewer machines, or enlarge the pool: `muster pools` shows its capacity"],
  ["LIMIT_EXCEEDED", "request less of what the message names, or split the work"],
])("advises on a job that was refused with %s", (code, next) => {
  const refused = job("Queued", { waitingBecause: "why" }, condition("MachinesReserved", code, "", "False"));
  expect(explainJob(refused, undefined)).toEqual({ code, message: "why", next });
});

it("names the log of a failed member", () => {
  const members = [{ component: "worker-1", state: "FAILED" }];
  expect(explainJob(job("Failed", { members }, condition("Failed", "X", "")), undefined).next).toBe(
    "muster logs job/train worker-1",
  );
});

it("dates a phase by its condition, and the queue by the creation", () => {
  expect(getJobPhase(job("Queued"))).toEqual({ phase: "QUEUED", sinceMs: 1000 });
  expect(getJobPhase(job("Running", {}, condition("Running", "R", "")))).toEqual({ phase: "RUNNING", sinceMs: 7000 });
  expect(getJobPhase(job("Failed", {}, condition("Failed", "Cancelled", ""))).phase).toBe("CANCELLED");
});
