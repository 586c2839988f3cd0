import { expect, it } from "vitest";
import { makeQueue, makeOwnedAmount, TWO_TEAMS } from "../../test/a-queue.ts";
import type { Queue } from "../adapters/queue-messages.ts";
import type { Reservation, ReservationExplanation } from "../adapters/reservation-messages.ts";
import { buildExplanation, buildOwnerExplanation, buildExplanationRecord } from "./build-explanation.ts";
import { adviseOnQueueWait, buildQueueWait, buildQueueWaitLines, isWaitingForQueue } from "./build-queue-wait.ts";
import { placeQueues } from "./queue-tree.ts";

const STYLE = { columns: 100, colours: false };
const GPU = "nvidia.com/gpu";
const SHORTAGE = { queue: "team-a", pool: "h100", resource: GPU, requested: "4", available: "0" };

function waiting(id: string, rest: Partial<Reservation> = {}): Reservation {
  return {
    ...{ id, ownerKind: "job", ownerId: id, state: "waiting", needs: [], machines: [], priority: 0, createdAtMs: 0 },
    ...{ grantedAtMs: undefined, queue: "team-a", because: undefined },
    ...rest,
  };
}

function explained(code: string, rest: Partial<Reservation> = {}): ReservationExplanation {
  const numbers = { pool: "", requested: 0, parts: 0, available: 0, ahead: 0 };
  return {
    reservation: waiting("mine", { because: { code, ...numbers, quota: SHORTAGE }, ...rest }),
    ...{ code, message: "it waits", pools: [], place: { ahead: 2, byPriority: [] } },
    ...{ hold: undefined, concurrency: undefined },
    ...{ requestsAhead: [], requestsAheadMore: 0, preempted: [], preemptedMore: 0, preemption: undefined },
  };
}

const OTHERS = [
  waiting("urgent", { priority: 5 }),
  waiting("mine"),
  waiting("later", { createdAtMs: 1 }),
  waiting("other", { queue: "team-b", priority: 9 }),
  waiting("runs", { state: "granted", priority: 9 }),
];

function waitOf(code: string, queues: readonly Queue[] = TWO_TEAMS, rest: Partial<Reservation> = {}) {
  return buildQueueWait(explained(code, rest), placeQueues(queues), OTHERS);
}

/** Returns the two teams with changes of some queues. */
function teamsWith(changes: Readonly<Record<string, Partial<Queue>>>): readonly Queue[] {
  return TWO_TEAMS.map((queue) => ({ ...queue, ...changes[queue.name] }));
}

it("prints the queue, the requests ahead, the shortage, and the users of the resource in the tree", () => {
  expect(buildQueueWaitLines(waitOf("WAITING_FOR_QUOTA"), 60_000, STYLE)).toEqual([
    "",
    "queue team-a: BestEffortFIFO; 1 pending, 2 admitted",
    "  1 request of the queue ahead: job/urgent (priority 5, 1m00s)",
    "  nvidia.com/gpu in pool h100: 4 needed, 0 available",
    "",
    "POOL  RESOURCE        NOMINAL  MAX BORROWED  MAX LENT  USED  BORROWED  CAN GET",
    "h100  nvidia.com/gpu  8        no limit      all       10    2         0",
    "",
    "TREE      QUOTA  USED  BORROWED  PENDING",
    "company   10     10    0         0",
    "  team-a  8      10    2         1",
    "  team-b  4      1     0         0",
  ]);
});

it("prints why a queue admits nothing, or that it does not exist", () => {
  const held = teamsWith({ "team-a": { problem: "HELD", stopPolicy: "Hold" } });
  const lines = buildQueueWaitLines(waitOf("QUEUE_HELD", held), 0, STYLE);
  expect(lines).toContain("  HELD: spec.stopPolicy is Hold");
  const missing = buildQueueWaitLines(waitOf("QUEUE_UNKNOWN", TWO_TEAMS, { queue: "team-x" }), 0, STYLE);
  expect(missing).toEqual(["", "queue team-x: does not exist; queues that may have work: team-a, team-b"]);
});

const lends = { stated: { nominal: 4, borrowingLimit: undefined, lendingLimit: undefined } };
const borrowing = { "team-b": { amounts: [{ ...makeOwnedAmount(GPU, 4, 6), ...lends }] } };

it.each<[string, string, readonly Queue[], RegExp]>([
  [
    "the limit of what the tree lends",
    "WAITING_FOR_QUOTA",
    TWO_TEAMS,
    /^wait until work of its tree ends, or raise nominal of nvidia/,
  ],
  ["the borrower", "WAITING_FOR_QUOTA", teamsWith(borrowing), /^wait until work of team-b ends, which borrows/],
  [
    "the borrower of the queue's own quota",
    "WAITING_FOR_QUOTA",
    teamsWith({ ...borrowing, "team-a": { amounts: [makeOwnedAmount(GPU, 8, 4)] } }),
    /^wait until work of team-b ends, which borrows what team-a owns; a lower lendingLimit .*edit queue team-a`$/,
  ],
  [
    "the borrowing limit",
    "WAITING_FOR_QUOTA",
    teamsWith({ "team-a": { amounts: [makeOwnedAmount(GPU, 8, 10, { borrowingLimit: 2 })] } }),
    /^wait until work of team-a ends, or raise nominal or borrowingLimit .*`kubectl edit queue team-a`/,
  ],
  [
    "a resource that the queue does not name",
    "WAITING_FOR_QUOTA",
    teamsWith({ "team-a": { hasQuotas: true, amounts: [makeOwnedAmount("cpu", 8)] } }),
    /^name nvidia.com\/gpu of pool h100 in spec.quotas/,
  ],
  [
    "the owner that waits",
    "KEPT_FOR_OWNER",
    teamsWith({ "team-b": { pending: 1 } }),
    /^wait for the work of team-b, which waits for its own quota/,
  ],
  [
    "the first request",
    "BEHIND_STRICT_HEAD",
    teamsWith({ "team-a": { strategy: "StrictFIFO" } }),
    /^wait for job\/urgent, .*patch queue team-a .*BestEffortFIFO/,
  ],
  [
    "the hold",
    "QUEUE_HELD",
    teamsWith({ "team-a": { problem: "HELD", stopPolicy: "Hold" } }),
    /patch queue team-a .*"stopPolicy":"None"/,
  ],
])("advises about %s", (_, code, queues, advice) => {
  expect(adviseOnQueueWait(waitOf(code, queues))).toMatch(advice);
});

it("suggests the nearest queue, or the list", () => {
  expect(adviseOnQueueWait(waitOf("QUEUE_UNKNOWN", TWO_TEAMS, { queue: "team-aa" }))).toMatch(
    /did you mean "team-a"\?$/,
  );
  expect(adviseOnQueueWait(waitOf("QUEUE_UNKNOWN", [makeQueue("z")], { queue: "night" }))).toContain("`muster queues`");
});

it.each([
  ["WAITING_FOR_QUOTA", true],
  ["BEHIND_HIGHER_PRIORITY", true],
  ["BEHIND_FAIR_SHARE", true],
  ["POOL_AVAILABILITY", false],
])("requests the queue of a wait with %s: %s", (code, isAsked) => {
  expect(isWaitingForQueue(explained(code))).toBe(isAsked);
});

it("adds the advice and the queue to the explanation of a job and of its reservation", () => {
  const code = "BEHIND_STRICT_HEAD";
  const queue = { value: waitOf(code) };
  const reason = { code, message: "another request is first", next: "wait" };
  const job = {
    ...{ kind: "job", name: "train", phase: "QUEUED", sinceMs: 0, isOver: false, reason, more: [] },
    ...{ reservation: explained(code), scaling: undefined },
  };
  const lines = buildExplanation(job, 0, STYLE, queue);
  expect(lines[2]).toMatch(/^next: wait for job\/urgent, or let others pass it/);
  expect(lines).toContain("queue team-a: BestEffortFIFO: nothing passes the first request; 1 pending, 2 admitted");
  expect(buildExplanationRecord(job, queue)).toMatchObject({ queue: { name: "team-a", ahead: ["job/urgent"] } });
  expect(buildOwnerExplanation(explained(code), undefined, 0, STYLE, queue)).toContain(lines[2]);
  const unread = buildExplanation(job, 0, STYLE, { trouble: "reservation is not available" });
  expect(unread).toContain("next: wait");
  expect(unread).toContain("its queue cannot be read: reservation is not available");
});
