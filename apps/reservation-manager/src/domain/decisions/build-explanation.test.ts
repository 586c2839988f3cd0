import { expect, it } from "vitest";
import {
  makeNode,
  makeOwner,
  policy,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { buildExplanation } from "./build-explanation.ts";
import type { ReservationRequest } from "./check-request.ts";
import { buildMachines, withCompleteness, type NodeFacts } from "../ledger/machines.ts";
import { findReservation } from "../ledger/ledger.ts";

function runOf(nodes: readonly NodeFacts[], ...requests: readonly ReservationRequest[]): LedgerRun {
  const run = startRun(nodes);
  for (const request of requests) {
    run.nowMs += 1;
    stepRun(run, { kind: "reserve", request });
  }
  return run;
}

function explain(run: LedgerRun, id: string) {
  const reservation = findReservation(run.world.ledger, makeOwner(id));
  if (reservation === undefined) throw new Error(`${id} has no reservation`);
  return buildExplanation(reservation, run.world, policy, run.nowMs);
}

const holder = (id: string, sequence: number, machines: number, sinceMs: number) => {
  return { owner: makeOwner(id), sequence, machines, parts: 0, sinceMs };
};

it("names the holders of the pool's machines, most machines first, and why its other nodes cannot be granted", () => {
  const run = runOf(
    [
      ...["a1", "a2", "a3"].map((name) => makeNode(name, "a")),
      makeNode("a4", "a", { ready: false, schedulable: false }),
      makeNode("a5", "a", { schedulable: false }),
      makeNode("a6", "a", { occupants: [makeOwner("foreign")] }),
      makeNode("b1", "b", { ready: false }),
    ],
    makeRequest("one", ["a"]),
    makeRequest("two", ["a", "a"]),
    makeRequest("x", ["a", "a"]),
  );
  const { because, message, pools } = explain(run, "x");
  expect(because?.code).toBe("POOL_AVAILABILITY");
  expect(pools).toEqual([
    {
      pool: "a",
      requested: 2,
      available: 0,
      kept: 0,
      capacity: 3,
      held: 3,
      unusable: {
        listed: [
          { node: "a4", reason: "NOT_READY", occupant: undefined, foreign: undefined },
          { node: "a5", reason: "CORDONED", occupant: undefined, foreign: undefined, cordoned: false },
          { node: "a6", reason: "OCCUPIED", occupant: makeOwner("foreign"), foreign: undefined },
        ],
        more: 0,
      },
      holders: { listed: [holder("two", 2, 2, 2), holder("one", 1, 1, 1)], more: 0 },
    },
  ]);
  expect(message).toBe(
    "pool a has 0 machines free for it, 2 are needed (of 3); held by session otwo (2), session oone (1); 3 nodes cannot be granted",
  );
});

it("names the owner of a machine whose node is lost", () => {
  const run = runOf(
    [makeNode("a1", "a"), makeNode("a2", "a")],
    makeRequest("one", ["a", "a"]),
    makeRequest("x", ["a"]),
  );
  stepRun(run, { kind: "lose", node: "a1" });
  expect(explain(run, "x").pools).toMatchObject([
    { capacity: 1, held: 1, holders: { listed: [holder("one", 1, 2, 1)] } },
  ]);
});

it("states how many are ahead, by priority", () => {
  const run = runOf(
    [makeNode("a1", "a")],
    makeRequest("one", ["a"]),
    makeRequest("low", ["a"], { priority: -1 }),
    makeRequest("same", ["a"]),
    makeRequest("x", ["a"]),
    makeRequest("high1", ["a"], { priority: 7 }),
    makeRequest("high2", ["a"], { priority: 7 }),
    makeRequest("behind", ["a"]),
  );
  expect(explain(run, "x").place).toEqual({
    ahead: 3,
    byPriority: [
      { priority: 7, requests: 2 },
      { priority: 0, requests: 1 },
    ],
    more: 0,
  });
  expect(explain(run, "high1").place).toEqual({ ahead: 0, byPriority: [], more: 0 });
  expect(explain(run, "x").message).toContain("; 3 requests ahead of it");
});

it("lists up to its limit and counts the rest", () => {
  const many = Array.from({ length: 30 }, (_, index) => index + 10);
  const run = runOf(
    [
      ...many.map((number) => makeNode(`a${number}`, "a")),
      ...many.map((number) => makeNode(`b${number}`, "a", { ready: false })),
    ],
    ...many.map((number) => makeRequest(`h${number}`, ["a"])),
    ...many.map((number) => makeRequest(`w${number}`, ["a"], { priority: number })),
    makeRequest("x", ["a"], { concurrencyLimit: 30 }),
  );
  const { pools, place, concurrency } = explain(run, "x");
  expect([pools[0]?.holders.listed.length, pools[0]?.holders.more]).toEqual([20, 10]);
  expect([pools[0]?.unusable.listed.length, pools[0]?.unusable.more]).toEqual([20, 10]);
  expect([place?.byPriority.length, place?.more, place?.ahead]).toEqual([20, 10, 30]);
  expect([concurrency?.holders.listed.length, concurrency?.holders.more, concurrency?.granted]).toEqual([20, 10, 30]);
});

it("reports the hold of an older request to both requests", () => {
  const run = runOf(
    [makeNode("a1", "a"), makeNode("a2", "a")],
    makeRequest("one", ["a"]),
    makeRequest("large", ["a", "a"]),
  );
  stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
  stepRun(run, { kind: "reserve", request: makeRequest("x", ["a"]) });
  expect(explain(run, "x")).toMatchObject({
    because: { code: "HELD_FOR_OLDER", pool: "a", requested: 1, available: 0, ahead: 1 },
    hold: { own: false, reservation: { owner: makeOwner("large") } },
    pools: [{ available: 1, kept: 1 }],
    message:
      "pool a has 1 machine free, 1 is needed, and 1 is kept for session olarge, which has waited too long; 1 request ahead of it",
  });
  expect(explain(run, "large")).toMatchObject({
    because: { code: "POOL_AVAILABILITY", available: 1, requested: 2 },
    hold: { own: true },
    pools: [{ available: 1, kept: 0 }],
    overtakenUntilMs: 2 + policy.holdAfterMs,
  });
});

it("names the concurrency limit, the reservations that use it and since when", () => {
  const run = runOf(
    ["a1", "a2", "a3"].map((name) => makeNode(name, "a")),
    makeRequest("one", ["a"], { concurrencyLimit: 1 }),
    makeRequest("x", ["a"], { concurrencyLimit: 1 }),
  );
  expect(explain(run, "x")).toMatchObject({
    because: { code: "CONCURRENCY_LIMIT" },
    concurrency: { limit: 1, granted: 1, holders: { listed: [holder("one", 1, 1, 1)], more: 0 } },
    message: "1 reservation of kind session is granted, and the limit is 1; held by session oone (1)",
  });
});

it("reports that the pools are not known yet, without a complete list of nodes", () => {
  const run = runOf([makeNode("a1", "a")], makeRequest("one", ["a"]), makeRequest("x", ["a"]));
  run.world = { ...run.world, machines: withCompleteness(buildMachines([], run.world.ledger), false) };
  const { because, message, pools } = explain(run, "x");
  expect(because).toMatchObject({ code: "POOLS_NOT_KNOWN_YET", pool: "a", requested: 1, available: 0 });
  expect(message).toContain("not all nodes are known at present");
  expect(pools).toMatchObject([{ capacity: 0, holders: { listed: [holder("one", 1, 1, 1)] } }]);
});

it("names the machines of a granted reservation, and that it waits for nothing", () => {
  const run = runOf([makeNode("a1", "a")], makeRequest("one", ["a"]));
  expect(explain(run, "one")).toMatchObject({
    because: undefined,
    place: undefined,
    hold: undefined,
    overtakenUntilMs: undefined,
    message: "holds 1 machine",
  });
});
