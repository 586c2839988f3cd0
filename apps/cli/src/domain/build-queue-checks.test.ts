import { expect, it } from "vitest";
import { makeQueueAmount, makeQueue, makeOwnedAmount, TWO_TEAMS } from "../../test/a-queue.ts";
import type { Queue } from "../adapters/queue-messages.ts";
import type { Pool } from "../adapters/reservation-messages.ts";
import { buildQueueChecks, type SeenQueues } from "./build-queue-checks.ts";
import type { WorkEvent } from "./work.ts";

const GPU = "nvidia.com/gpu";
const H100: Pool = {
  ...{ name: "h100", available: 0, capacity: 2, held: 2, unusable: 0, unusableByReason: [], waiting: 0 },
  ...{ elasticMax: 0, shared: 0, overcommitted: 0, overcommittedNodes: [], foreign: undefined },
  ...{ elasticAtMs: undefined, free: {} },
  allocatable: { cpu: 256_000, memory: 2 ** 41, [GPU]: 12 },
};

function check(queues: readonly Queue[], rest: Partial<SeenQueues> = {}) {
  return buildQueueChecks({
    ...{ queues: { value: queues }, pools: { value: [H100] }, jobs: { value: [] }, reservations: { value: [] } },
    ...rest,
  });
}

it("has one line without a problem, and none without queues or without an answer", () => {
  expect(check(TWO_TEAMS)).toEqual([{ check: "queues", status: "ok", detail: "3 queues without a problem", next: "" }]);
  expect(check([])).toEqual([]);
  expect(check([], { queues: { trouble: "reservation is not available" } })).toEqual([]);
});

it("names queues with a problem, and a held queue only if work waits", () => {
  const held = makeQueue("held", { problem: "HELD", stopPolicy: "Hold" });
  expect(check([held])).toMatchObject([{ status: "ok", detail: "1 queue without a problem; held: held" }]);
  expect(check([{ ...held, pending: 2 }])).toMatchObject([
    {
      ...{ check: "queues", status: "warning" },
      detail: "held admits nothing: HELD: spec.stopPolicy is Hold; 2 requests waiting",
      next: expect.stringContaining("kubectl patch queue held") as string,
    },
  ]);
  const lost = makeQueue("lost", { problem: "PARENT_MISSING", parent: "nowhere" });
  expect(check([lost, { ...held, pending: 1 }])).toMatchObject([
    {
      detail: expect.stringMatching(
        /; lost admits nothing: PARENT_MISSING: the parent nowhere does not exist$/,
      ) as string,
      next: expect.stringMatching(/^of held: .*; `muster queues` has the others$/) as string,
    },
  ]);
});

it("names a leaf that owns nothing while others of its tree own quotas", () => {
  expect(check([...TWO_TEAMS, makeQueue("team-c", { parent: "company" })])).toMatchObject([
    {
      check: "queues without quota",
      detail: "team-c has no quota, nor has a queue above; others of the tree have one",
    },
  ]);
});

it.each<[string, readonly Queue[]]>([
  ["no queue of the tree has a quota", [makeQueue("root"), makeQueue("leaf", { parent: "root" })]],
  [
    "a queue above has one",
    [
      makeQueue("root", { amounts: [makeOwnedAmount("cpu", 8)] }),
      makeQueue("leaf", { parent: "root" }),
      makeQueue("x", { parent: "root" }),
    ],
  ],
  ["only another tree has one", [...TWO_TEAMS, makeQueue("alone")]],
])("accepts a leaf without quotas if %s", (_, queues) => {
  expect(check(queues)).toMatchObject([{ status: "ok" }]);
});

it("compares the quotas of a tree with what its pools can allocate", () => {
  const more = makeQueue("team-c", { parent: "company", amounts: [makeOwnedAmount(GPU, 1)] });
  expect(check([...TWO_TEAMS, more])).toMatchObject([
    {
      ...{ check: "quotas and machines", status: "warning" },
      detail: "the tree of company owns 13 nvidia.com/gpu of h100, which has 12",
    },
  ]);
  for (const pool of [
    { ...H100, elasticMax: 4 },
    { ...H100, allocatable: {} },
  ])
    expect(check([...TWO_TEAMS, more], { pools: { value: [pool] } })).toMatchObject([{ status: "ok" }]);
  expect(check([...TWO_TEAMS, more], { pools: { trouble: "away" } })).toMatchObject([{ status: "ok" }]);
});

it("does not count a quota again in the queues above", () => {
  const amounts = [makeQueueAmount(GPU, { quota: 12 })];
  const queues = [
    makeQueue("root", { amounts }),
    makeQueue("leaf", { parent: "root", amounts: [makeOwnedAmount(GPU, 12)] }),
  ];
  expect(check(queues)).toMatchObject([{ status: "ok" }]);
});

it("names pools of quotas that do not exist", () => {
  expect(check(TWO_TEAMS, { pools: { value: [] } })).toMatchObject([
    { check: "pools of queues", detail: "quotas name pools that do not exist: h100" },
  ]);
});

it("names work whose queue does not exist", () => {
  const event: WorkEvent = { phase: "QUEUED", atMs: 0, reason: "QUEUE_UNKNOWN", description: "no queue" };
  const reservation = {
    ...{ id: "r", ownerKind: "job", ownerId: "old-1", state: "waiting" as const, needs: [], machines: [], priority: 0 },
    ...{ createdAtMs: 0, grantedAtMs: undefined, queue: "gone" },
    because: { code: "QUEUE_UNKNOWN", pool: "", requested: 0, parts: 0, available: 0, ahead: 0 },
  };
  const found = check([], {
    jobs: { value: [{ kind: "job", name: "train", events: [event] }] },
    reservations: { value: [reservation] },
  });
  expect(found).toMatchObject([
    {
      ...{ check: "work without a queue", status: "warning" },
      detail: "its queue does not exist, or may not have it: job/train, job/old-1 (queue gone)",
    },
  ]);
});
