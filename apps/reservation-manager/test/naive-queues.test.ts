import fc from "fast-check";
import { expect, it } from "vitest";
import { parsePair, type Queue } from "../src/domain/ledger/queue.ts";
import { NaiveQueues } from "./naive-queues.ts";
import { borrowedOf, freeOf, isLimited, pathOf, totalOf, usedOf } from "./naive-quota.ts";
import { queueOperations, queueOperationsWithoutChanges, rivalOperations } from "./random-queues.ts";

const plenty = new Map(
  ["a cpu", "a memory", "a pods", "b cpu", "b memory", "b pods"].map((pair) => [pair, 1_000_000] as const),
);
const scarce = new Map(["a cpu", "a memory", "b cpu", "b memory"].map((pair) => [pair, 8] as const));

function queue(name: string, cpu: number, more: Partial<Queue> = {}): Queue {
  return {
    name,
    parent: "root",
    weightMilli: 1000,
    quotas: new Map([["a cpu", { nominal: cpu }]]),
    strategy: "BestEffortFIFO",
    stopPolicy: "None",
    ...more,
  };
}

function root(): Queue {
  const { parent: _, ...rest } = queue("root", 0);
  return rest;
}

function start(...queues: readonly Queue[]): NaiveQueues {
  const ledger = new NaiveQueues(plenty);
  for (const each of [root(), ...queues]) ledger.putQueue(each);
  return ledger;
}

function cpu(amount: number): ReadonlyMap<string, number> {
  return new Map([["a cpu", amount]]);
}

function codes(ledger: NaiveQueues): Readonly<Record<string, string>> {
  return Object.fromEntries(ledger.waits().map(({ sequence, code }) => [sequence, code]));
}

it("refuses an unknown queue, an inner one, 11 of 10, and changed needs of the same owner; accepts a repetition", () => {
  const ledger = start(queue("left", 6), queue("right", 4));
  expect(ledger.reserve("one", "gone", cpu(1), 0).verdict).toEqual({ kind: "refused", code: "QUEUE_UNKNOWN" });
  expect(ledger.reserve("one", "root", cpu(1), 0).verdict).toEqual({ kind: "refused", code: "QUEUE_UNKNOWN" });
  expect(ledger.reserve("one", "left", cpu(11), 0).verdict).toEqual({ kind: "refused", code: "QUOTA_EXCEEDED" });
  expect(ledger.reserve("one", "left", cpu(7), 0)).toEqual({ verdict: { kind: "granted", sequence: 1 }, grants: [1] });
  expect(ledger.reserve("one", "left", cpu(7), 0)).toEqual({ verdict: { kind: "known", sequence: 1 }, grants: [] });
  expect(ledger.reserve("one", "left", cpu(8), 0).verdict).toEqual({ kind: "refused", code: "RESERVATION_DIFFERS" });
  expect(ledger.granted()).toEqual([1]);
});

it("grants in one pass what a release of 10 makes possible: 4 of the own quota first, then the smaller share", () => {
  const ledger = start(queue("left", 6), queue("right", 4));
  ledger.reserve("all", "left", cpu(10), 0);
  ledger.reserve("borrower", "left", cpu(8), 9);
  ledger.reserve("owner", "right", cpu(4), 0);
  ledger.reserve("second", "right", cpu(2), 0);
  ledger.reserve("third", "left", cpu(5), 0);
  expect(codes(ledger)).toEqual({
    2: "WAITING_FOR_QUOTA",
    3: "WAITING_FOR_QUOTA",
    4: "WAITING_FOR_QUOTA",
    5: "WAITING_FOR_QUOTA",
  });
  // The 5 and the 4 are within 6 and 4; then 1 is free, and neither 2 nor 8 fits.
  expect(ledger.release("all").grants).toEqual([3, 5]);
  expect(codes(ledger)).toEqual({ 2: "WAITING_FOR_QUOTA", 4: "WAITING_FOR_QUOTA" });
  expect(ledger.release("third").grants).toEqual([4]);
});

it("keeps 5 of the own 6 from a borrower of 2, until a smaller request of the owner makes the 5 exceed the 6", () => {
  const ledger = start(queue("left", 6), queue("right", 4));
  ledger.reserve("long", "right", cpu(7), 0);
  ledger.reserve("owner", "left", cpu(5), 0);
  ledger.reserve("borrower", "right", cpu(1), 0);
  expect(codes(ledger)).toEqual({ 2: "WAITING_FOR_QUOTA", 3: "KEPT_FOR_OWNER" });
  expect(ledger.reserve("small", "left", cpu(2), 1)).toEqual({
    verdict: { kind: "granted", sequence: 4 },
    grants: [4, 3],
  });
});

it("blocks a StrictFIFO leaf only behind its head, skips what can never fit, and gives each its code", () => {
  const ledger = start(queue("left", 6, { strategy: "StrictFIFO" }), queue("right", 4));
  ledger.reserve("first", "left", cpu(6), 0);
  ledger.reserve("head", "left", cpu(10), 0);
  ledger.reserve("behind", "left", cpu(3), 0);
  expect(ledger.reserve("other", "right", cpu(4), 0).verdict).toEqual({ kind: "granted", sequence: 4 });
  expect(codes(ledger)).toEqual({ 2: "WAITING_FOR_QUOTA", 3: "BEHIND_STRICT_HEAD" });
  expect(ledger.release("first").grants).toEqual([]);
  expect(codes(ledger)).toEqual({ 2: "WAITING_FOR_QUOTA", 3: "BEHIND_STRICT_HEAD" });
  expect(ledger.putQueue(queue("left", 5, { strategy: "StrictFIFO" })).grants).toEqual([3]);
  expect(codes(ledger)).toEqual({ 2: "WAITING_FOR_QUOTA" });
});

it("waits for a queue that is held or removed, or has a child, and grants when the queue is restored", () => {
  const ledger = start(queue("left", 6, { stopPolicy: "Hold" }));
  expect(ledger.reserve("one", "left", cpu(2), 0).verdict).toEqual({ kind: "waiting", sequence: 1 });
  expect(codes(ledger)).toEqual({ 1: "QUEUE_HELD" });
  ledger.removeQueue("left");
  expect(codes(ledger)).toEqual({ 1: "QUEUE_UNKNOWN" });
  ledger.putQueue(queue("left", 6, { parent: "gone" }));
  expect(codes(ledger)).toEqual({ 1: "QUEUE_HELD" });
  ledger.putQueue(queue("child", 1, { parent: "left" }));
  ledger.putQueue(queue("left", 6));
  expect(codes(ledger)).toEqual({ 1: "QUEUE_HELD" });
  expect(ledger.removeQueue("child").grants).toEqual([1]);
});

it("lowers the priority of a request to that of its queue: the older one goes first", () => {
  const ledger = start(queue("left", 2, { maxPriority: 0 }));
  ledger.reserve("running", "left", cpu(2), 0);
  ledger.reserve("older", "left", cpu(2), 0);
  ledger.pass(1);
  ledger.reserve("urgent", "left", cpu(2), 5);
  expect(ledger.release("running").grants).toEqual([2]);
});

it("leaves no waiting request that could be granted, and gives every wait a code", () => {
  fc.assert(
    fc.property(
      fc.oneof(queueOperations, rivalOperations),
      fc.constantFrom(plenty, scarce),
      (operations, allocatable) => {
        const ledger = new NaiveQueues(allocatable);
        for (const operation of operations) {
          const { grants } = ledger.step(operation);
          // `waits` throws for a request that could be granted.
          const waits = ledger.waits();
          expect(new Set([...grants, ...waits.map(({ sequence }) => sequence)]).size).toBe(
            grants.length + waits.length,
          );
        }
      },
    ),
    { numRuns: 60 },
  );
});

it("keeps every queue within total and borrowing limit, and every tree within its total, while the queues stay the same", () => {
  fc.assert(
    fc.property(queueOperationsWithoutChanges, (operations) => {
      const ledger = new NaiveQueues(scarce);
      for (const operation of operations) ledger.step(operation);
      const forest = ledger.forest();
      for (const { name, quotas } of forest.queues.filter((each) => pathOf(forest, each.name) !== undefined)) {
        for (const pair of plenty.keys()) {
          if (!isLimited(forest, name, pair)) continue;
          expect(freeOf(forest, name, pair)).toBeGreaterThanOrEqual(0n);
          const limit = quotas.get(pair)?.borrowingLimit;
          if (limit !== undefined) expect(borrowedOf(forest, name, pair)).toBeLessThanOrEqual(BigInt(limit));
          const isRoot = pathOf(forest, name)?.length === 1;
          if (isRoot) expect(usedOf(forest, name, pair)).toBeLessThanOrEqual(totalOf(forest, name, pair));
        }
        for (const [pair] of forest.own.get(name) ?? [])
          if (quotas.size > 0 && parsePair(pair).resource !== "pods") expect(quotas.has(pair)).toBe(true);
      }
    }),
    { numRuns: 100 },
  );
});
