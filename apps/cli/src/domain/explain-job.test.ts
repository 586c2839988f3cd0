import { expect, it } from "vitest";
import { component, session } from "../../test/session-fixture.ts";
import { explainJob } from "./explain-job.ts";
import type { ReservationExplanation } from "./reservation.ts";
import type { Work, WorkEvent } from "./work.ts";

function job(event: Partial<WorkEvent>, more: Partial<Work> = {}): Work {
  const events = [{ phase: "RUNNING", atMs: 0, reason: "", description: "", ...event }];
  return { ...session([]), kind: "job", name: "train", events, ...more };
}

function waiting(components: readonly string[]): ReservationExplanation {
  return {
    reservation: {
      id: "r-1",
      ownerKind: "job",
      ownerId: "train-1",
      state: "waiting",
      needs: components.map((each) => ({ component: each, pool: "p" })),
      machines: [],
      priority: 0,
      createdAtMs: 0,
      grantedAtMs: undefined,
      because: undefined,
    },
    code: "POOL_AVAILABILITY",
    message: "pool p has no machine free",
    pools: [],
    place: { ahead: 0, byPriority: [] },
    hold: undefined,
    concurrency: undefined,
  };
}
const granted = { ...waiting([]), code: "" };

it.each<[title: string, work: Work, reservation: ReservationExplanation | undefined, code: string, message: string]>([
  ["is new", job({ phase: "QUEUED" }), undefined, "NOT_TAKEN_YET", "nobody has asked for its machines yet"],
  ["waits", job({ phase: "QUEUED" }), waiting(["worker-0"]), "POOL_AVAILABILITY", "pool p has no machine free"],
  [
    "was refused by the ledger, which keeps nothing of it",
    job({ phase: "QUEUED", reason: "POOL_CAPACITY" }, { waitingBecause: "pool p has 2 machines, 5 are needed" }),
    undefined,
    "POOL_CAPACITY",
    "pool p has 2 machines, 5 are needed",
  ],
  ["is suspended", job({ phase: "SUSPENDED" }), undefined, "SUSPENDED", "it is suspended, and holds no machines"],
  ["is being cancelled", job({}, { cancelRequested: true }), granted, "CANCELLING", "its cancellation is under way"],
  [
    "starts",
    job({ phase: "STARTING" }),
    granted,
    "MEMBERS_NOT_READY",
    "its machines are reserved; its pods are being started",
  ],
  [
    "restarts",
    job({ phase: "RESTARTING", description: "pods that failed are made anew" }),
    granted,
    "RESTARTING",
    "pods that failed are made anew",
  ],
  [
    "restarts after a pause",
    job({ phase: "RESTARTING", description: "restart 3 of 6 in 40 s" }, { waitingBecause: "restart 3 of 6 in 25 s" }),
    granted,
    "RESTARTING",
    "restart 3 of 6 in 25 s",
  ],
  [
    "runs with all of its members but one",
    job({}, { components: [component("worker-0", "RUNNING"), component("evaluation-0", "PENDING")] }),
    granted,
    "RUNNING",
    "its members run; 1 member not started yet: evaluation-0",
  ],
  [
    "runs, and a member of it finds no place",
    job(
      {},
      {
        components: [component("worker-0", "RUNNING"), component("worker-1", "PENDING")],
        waitingBecause: "pod train-worker-1: Unschedulable: 0/3 nodes are available",
      },
    ),
    granted,
    "MEMBERS_NOT_READY",
    "pod train-worker-1: Unschedulable: 0/3 nodes are available",
  ],
  [
    "runs, and a member that it grew by waits",
    job({}, { components: [component("worker-0", "RUNNING")] }),
    waiting(["worker-1"]),
    "MEMBER_WAITS",
    "worker-1 waits for a machine: pool p has no machine free",
  ],
  [
    "is over",
    job({ phase: "SUCCEEDED", description: "every worker completed" }, { outcome: "success" }),
    undefined,
    "FINISHED",
    "it is over: every worker completed",
  ],
  [
    "has failed",
    job({ phase: "FAILED", reason: "DeadlineExceeded", description: "too long" }, { outcome: "failure" }),
    undefined,
    "FINISHED",
    "it is over, FAILED: DeadlineExceeded: too long",
  ],
])("explains a job that %s", (_title, work, reservation, code, message) => {
  expect(explainJob(work, reservation)).toMatchObject({ code, message });
});

it("names the log of a member that failed", () => {
  const failed = job({ phase: "FAILED" }, { outcome: "failure", components: [component("worker-1", "FAILED")] });
  expect(explainJob(failed, undefined).next).toBe("muster logs job/train worker-1");
});
