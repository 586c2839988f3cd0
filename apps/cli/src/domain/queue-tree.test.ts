import fc from "fast-check";
import { expect, it } from "vitest";
import { makeQueueAmount, makeQueue, makeOwnedAmount, TWO_TEAMS } from "../../test/a-queue.ts";
import { getQueueReason } from "./queue-reason.ts";
import { computeAvailable, placeQueues, type PlacedQueue } from "./queue-tree.ts";

const placesOf = (queues: readonly PlacedQueue[]) => queues.map(({ name, depth }) => `${depth} ${name}`);

it("puts queues below their parents by name, in whatever order they arrive", () => {
  const queues = [
    ...TWO_TEAMS,
    makeQueue("team-a-night", { parent: "team-a" }),
    makeQueue("alone"),
    makeQueue("lost", { parent: "missing" }),
    makeQueue("below-lost", { parent: "lost" }),
  ];
  const shuffled = fc.shuffledSubarray(queues, { minLength: queues.length });
  fc.assert(
    fc.property(shuffled, (all) => {
      expect(placesOf(placeQueues(all))).toEqual([
        ...["0 alone", "0 company", "1 team-a", "2 team-a-night", "1 team-b"],
        ...["0 lost", "1 below-lost"],
      ]);
    }),
    { numRuns: 20 },
  );
});

it("shows each queue of a cycle, and those below it, once", () => {
  const queues = [
    makeQueue("a", { parent: "b" }),
    makeQueue("b", { parent: "a" }),
    makeQueue("own", { parent: "own" }),
    makeQueue("z", { parent: "a" }),
  ];
  expect(placesOf(placeQueues(queues))).toEqual(["0 a", "1 z", "0 b", "0 own"]);
});

it.each([
  ["company", "nvidia.com/gpu", 0],
  ["company", "cpu", 84_000],
  ["team-a", "nvidia.com/gpu", 0],
  ["team-a", "cpu", 84_000],
  // It owns four and lends at most two. It uses one of the other two, so one is left.
  ["team-b", "nvidia.com/gpu", 1],
  ["team-b", "rdma/hca", 0],
  ["team-b", "pods", undefined],
])("computes the amount that %s can get of %s", (name, resource, available) => {
  const queue = placeQueues(TWO_TEAMS).find((each) => each.name === name);
  if (queue === undefined) throw new Error("no queue");
  expect(computeAvailable(queue, { pool: "h100", resource })).toBe(available);
});

it("stops at the borrowing limit, and reports an unknown amount in a broken tree", () => {
  const leaf = (rest: object): readonly PlacedQueue[] =>
    placeQueues([
      makeQueue("root", { amounts: [makeQueueAmount("cpu", { quota: 100, used: 7 })] }),
      makeQueue("leaf", { parent: "root", amounts: [makeOwnedAmount("cpu", 5, 7, { borrowingLimit: 3 })], ...rest }),
    ]).slice(1);
  const cpu = { pool: "h100", resource: "cpu" };
  expect(leaf({}).map((queue) => computeAvailable(queue, cpu))).toEqual([1]);
  expect(leaf({ problem: "UNREADABLE" }).map((queue) => computeAvailable(queue, cpu))).toEqual([undefined]);
});

it("reports an unknown amount for a root without quotas, of resources that the ledger does not report", () => {
  const [root] = placeQueues([makeQueue("root")]);
  if (root === undefined) throw new Error("no queue");
  expect(computeAvailable(root, { pool: "p", resource: "cpu" })).toBeUndefined();
});

it.each([
  ["", "", ""],
  ["HELD", "", "HELD"],
  ["UNREADABLE", "", "UNREADABLE"],
  ["UNREADABLE", "spec.weight: must be a number", "INVALID_SPEC"],
  ["UNREADABLE", "it is being deleted", "DELETING"],
])("names the problem %o of a queue whose record states %o as its condition does: %o", (problem, written, reason) => {
  expect(getQueueReason(problem, written)).toBe(reason);
});
