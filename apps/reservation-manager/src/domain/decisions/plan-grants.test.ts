import { describe, expect, it } from "vitest";
import {
  makeNode,
  makeOwner,
  policy,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import type { ReservationRequest } from "./check-request.ts";
import { explainWaiting } from "./explain-waiting.ts";
import { findHolds } from "./find-hold.ts";
import { findReservation, restoreLedger } from "../ledger/ledger.ts";
import { withCompleteness, withNode, type NodeFacts } from "../ledger/machines.ts";
import { buildGrantEvent, planGrants } from "./plan-grants.ts";
import { runToEnd } from "../ledger/steps.ts";
import { evolveWorld, type World } from "../ledger/world.ts";

/** A pool `a` of so many nodes, all held by owners h0, h1, ... */
function fullPool(size: number): LedgerRun {
  const run = startRun(Array.from({ length: size }, (_, number) => makeNode(`a${number}`, "a")));
  for (let number = 0; number < size; number += 1) reserve(run, makeRequest(`h${number}`, ["a"]));
  return run;
}

/** The world of the run with more nodes, before anything is granted. */
function withFree(run: LedgerRun, ...nodes: readonly NodeFacts[]): World {
  const machines = nodes.reduce(withNode, run.world.machines);
  return { ...run.world, machines };
}

function reserve(run: LedgerRun, request: ReservationRequest): void {
  stepRun(run, { kind: "reserve", request });
}

function release(run: LedgerRun, ...ids: readonly string[]): void {
  for (const id of ids) stepRun(run, { kind: "release", owner: makeOwner(id) });
}

function wait(run: LedgerRun, ms: number): void {
  stepRun(run, { kind: "wait", ms });
}

function holders(run: LedgerRun): readonly string[] {
  return [...run.world.ledger.reservations.values()]
    .filter(({ grant }) => grant !== undefined)
    .map(({ owner }) => owner.id.slice(1));
}

function reason(run: LedgerRun, id: string) {
  const reservation = findReservation(run.world.ledger, makeOwner(id));
  const hold = findHolds(run.world, policy, run.nowMs);
  return reservation === undefined ? undefined : explainWaiting(reservation, run.world, hold);
}

describe("the order of grants", () => {
  it("is priority, then age, then arrival", () => {
    const run = fullPool(1);
    reserve(run, makeRequest("old", ["a"]));
    wait(run, 1);
    reserve(run, makeRequest("young", ["a"]));
    reserve(run, makeRequest("younger", ["a"]));
    reserve(run, makeRequest("urgent", ["a"], { priority: 5 }));
    const order: string[] = [];
    for (let turn = 0; turn < 4; turn += 1) {
      release(run, ...holders(run));
      order.push(...holders(run));
    }
    expect(order).toEqual(["urgent", "old", "young", "younger"]);
  });

  it("lets one that fits overtake one that does not", () => {
    const run = fullPool(2);
    reserve(run, makeRequest("large", ["a", "a"]));
    reserve(run, makeRequest("small", ["a"]));
    release(run, "h0");
    expect(holders(run)).toEqual(["h1", "small"]);
  });

  it("states how many were overtaken", () => {
    const run = fullPool(2);
    reserve(run, makeRequest("large", ["a", "a"]));
    reserve(run, makeRequest("small", ["a"]));
    expect(planGrants(withFree(run, makeNode("a9", "a")), policy, 0).steps).toEqual([
      {
        kind: "grant",
        sequence: 4,
        machines: [{ component: "c0", pool: "a", node: "a9" }],
        because: { code: "FITS_BEFORE_OTHERS", ahead: 1 },
      },
    ]);
  });
});

describe("the hold", () => {
  it("keeps machines for an overdue request while they become free one by one", () => {
    const run = fullPool(3);
    reserve(run, makeRequest("large", ["a", "a", "a"]));
    wait(run, policy.holdAfterMs + 1);
    reserve(run, makeRequest("small", ["a"]));
    release(run, "h0", "h1");
    expect(holders(run)).toEqual(["h2"]);
    expect(reason(run, "small")).toEqual({
      code: "HELD_FOR_OLDER",
      pool: "a",
      requested: 1,
      available: 0,
      ahead: 1,
      parts: 0,
    });
    expect(reason(run, "large")).toMatchObject({ requested: 3, available: 2, ahead: 0 });
    release(run, "h2");
    expect(holders(run)).toEqual(["large"]);
    release(run, "large");
    expect(holders(run)).toEqual(["small"]);
  });

  it("does not exist before the bound has passed", () => {
    const run = fullPool(2);
    reserve(run, makeRequest("large", ["a", "a"]));
    wait(run, policy.holdAfterMs);
    reserve(run, makeRequest("small", ["a"]));
    release(run, "h0");
    expect(holders(run)).toEqual(["h1", "small"]);
  });

  it("leaves machines that the overdue request does not need to others", () => {
    const run = startRun([makeNode("a0", "a"), makeNode("a1", "a"), makeNode("b0", "b")]);
    reserve(run, makeRequest("h", ["b"]));
    reserve(run, makeRequest("large", ["a", "b"]));
    wait(run, policy.holdAfterMs + 1);
    reserve(run, makeRequest("one", ["a"]));
    reserve(run, makeRequest("two", ["a"]));
    expect(holders(run)).toEqual(["h", "one"]);
  });

  it("does not stop requests of a higher priority", () => {
    const run = fullPool(2);
    reserve(run, makeRequest("large", ["a", "a"]));
    wait(run, policy.holdAfterMs + 1);
    release(run, "h0");
    reserve(run, makeRequest("urgent", ["a"], { priority: 1 }));
    expect(holders(run)).toEqual(["h1", "urgent"]);
  });

  it("is not given to a request that its concurrency limit stops", () => {
    const run = fullPool(2);
    reserve(run, makeRequest("limited", ["a", "a"], { concurrencyLimit: 1 }));
    wait(run, policy.holdAfterMs + 1);
    reserve(run, makeRequest("small", ["a"], { owner: { kind: "job", id: "osmall" } }));
    release(run, "h0");
    expect(holders(run)).toEqual(["h1", "small"]);
  });

  it("is lifted when its request reaches a concurrency limit, and its machines go to others immediately", () => {
    const run = fullPool(3);
    stepRun(run, { kind: "node", facts: makeNode("b0", "b") });
    reserve(run, makeRequest("other", ["b"], { owner: makeOwner("other", "job") }));
    reserve(run, makeRequest("large", ["a", "a", "a"], { concurrencyLimit: 4 }));
    reserve(run, makeRequest("small", ["a"], { owner: makeOwner("small", "job") }));
    reserve(run, makeRequest("last", ["b"], { concurrencyLimit: 4 }));
    wait(run, policy.holdAfterMs + 1);
    const world = withFree(run, makeNode("a8", "a"), makeNode("a9", "a"), makeNode("b9", "b"));
    const granted = planGrants(world, policy, run.nowMs).steps.map(({ sequence }) =>
      world.ledger.reservations.get(sequence),
    );
    expect(granted.map((reservation) => reservation?.owner.id)).toEqual(["olast", "osmall"]);
  });

  it("is lifted before later requests are visited, so that the first of them goes first", () => {
    const run = fullPool(3);
    stepRun(run, { kind: "node", facts: makeNode("b0", "b") });
    stepRun(run, { kind: "node", facts: makeNode("c0", "c") });
    const job = (id: string) => ({ owner: makeOwner(id, "job") });
    reserve(run, makeRequest("b", ["b"], job("b")));
    reserve(run, makeRequest("c", ["c"], job("c")));
    reserve(run, makeRequest("held", ["a", "c"], { concurrencyLimit: 4 }));
    wait(run, policy.holdAfterMs + 1);
    reserve(run, makeRequest("first", ["a", "a"], job("first")));
    reserve(run, makeRequest("session", ["b"], { concurrencyLimit: 4 }));
    reserve(run, makeRequest("second", ["a"], job("second")));
    const world = withFree(run, makeNode("a8", "a"), makeNode("a9", "a"), makeNode("b9", "b"));
    const granted = planGrants(world, policy, run.nowMs).steps.map(({ sequence }) =>
      world.ledger.reservations.get(sequence),
    );
    expect(granted.map((reservation) => reservation?.owner.id)).toEqual(["osession", "ofirst"]);
  });

  it("is kept while machines that were released still show their last holder's pods", () => {
    const run = fullPool(2);
    reserve(run, makeRequest("large", ["a", "a"]));
    wait(run, policy.holdAfterMs + 1);
    reserve(run, makeRequest("small", ["a"]));
    stepRun(run, { kind: "node", facts: makeNode("a0", "a", { occupants: [makeOwner("h0")] }) });
    release(run, "h0", "h1");
    expect(holders(run)).toEqual([]);
    stepRun(run, { kind: "node", facts: makeNode("a0", "a") });
    expect(holders(run)).toEqual(["large"]);
  });

  it("is not kept for a request that is larger than its pool is now", () => {
    const run = fullPool(3);
    reserve(run, makeRequest("large", ["a", "a", "a"]));
    wait(run, policy.holdAfterMs + 1);
    stepRun(run, { kind: "lose", node: "a2" });
    reserve(run, makeRequest("small", ["a"]));
    release(run, "h0");
    expect(holders(run)).toEqual(["h1", "h2", "small"]);
    expect(reason(run, "large")).toMatchObject({ code: "POOL_TOO_SMALL", requested: 3, available: 0 });
  });
});

describe("the concurrency limit", () => {
  it("keeps requests of the kind waiting while as many are granted, with the reason", () => {
    const run = startRun([makeNode("a0", "a"), makeNode("a1", "a"), makeNode("a2", "a")]);
    reserve(run, makeRequest("x", ["a"], { concurrencyLimit: 1 }));
    reserve(run, makeRequest("y", ["a"], { concurrencyLimit: 1 }));
    reserve(run, makeRequest("z", ["a"], { owner: { kind: "job", id: "oz" }, concurrencyLimit: 1 }));
    expect(holders(run)).toEqual(["x", "z"]);
    expect(reason(run, "y")).toEqual({
      code: "CONCURRENCY_LIMIT",
      pool: "",
      requested: 1,
      parts: 0,
      available: 0,
      ahead: 0,
    });
    release(run, "x");
    expect(holders(run)).toEqual(["y", "z"]);
  });
});

describe("a waiting request", () => {
  it("keeps waiting when its pool disappears, and is granted when the pool is back", () => {
    const run = fullPool(1);
    reserve(run, makeRequest("x", ["a"]));
    stepRun(run, { kind: "lose", node: "a0" });
    release(run, "h0");
    expect(reason(run, "x")).toMatchObject({ code: "POOL_TOO_SMALL", pool: "a", requested: 1, available: 0 });
    stepRun(run, { kind: "node", facts: makeNode("a9", "a") });
    expect(holders(run)).toEqual(["x"]);
  });

  it("can be withdrawn", () => {
    const run = fullPool(1);
    reserve(run, makeRequest("x", ["a"]));
    reserve(run, makeRequest("y", ["a"]));
    release(run, "x", "h0");
    expect(holders(run)).toEqual(["y"]);
  });
});

it("visits classes of requests, not requests", () => {
  const run = fullPool(1);
  for (let number = 0; number < 500; number += 1) reserve(run, makeRequest(`w${number}`, ["a"]));
  const { queue } = run.world.ledger;
  expect(queue.places.size).toBe(500);
  expect(queue.heads.size).toBe(1);
});

it("grants no more machines than the bound in one plan, and continues in the next", () => {
  const run = fullPool(1);
  for (let number = 0; number < 5; number += 1) reserve(run, makeRequest(`w${number}`, ["a"]));
  const free = Array.from({ length: 5 }, (_, number) => makeNode(`b${number}`, "a"));
  const bounded = { ...policy, machinesPerPlan: 2 };
  let world = withFree(run, ...free);
  const sizes: [number, boolean][] = [];
  for (let plan = planGrants(world, bounded, 0); ; plan = planGrants(world, bounded, 0)) {
    sizes.push([plan.steps.length, plan.complete]);
    if (plan.complete) break;
    world = evolveWorld(
      world,
      plan.steps.map((grant) => buildGrantEvent(grant, 0)),
    );
  }
  expect(sizes).toEqual([
    [2, false],
    [2, false],
    [1, true],
  ]);
});

it("grants nothing on nodes that may no longer exist, with the reason", () => {
  const run = fullPool(1);
  reserve(run, makeRequest("waiting", ["a"]));
  const current = withFree(run, makeNode("a9", "a"));
  const stale = { ...current, machines: withCompleteness(current.machines, false) };
  expect(planGrants(stale, policy, run.nowMs)).toEqual({ steps: [], complete: true });
  run.world = stale;
  expect(reason(run, "waiting")).toMatchObject({ code: "POOLS_NOT_KNOWN_YET", pool: "a", requested: 1, available: 1 });
  expect(planGrants(current, policy, run.nowMs).steps).toHaveLength(1);
});

it("grants each request of a restored ledger, also requests without a queue that state whether they may be preempted", () => {
  const run = fullPool(1);
  reserve(run, makeRequest("kept", ["a"], { notPreemptible: true }));
  reserve(run, makeRequest("plain", ["a"]));
  const { machines } = withFree(run, makeNode("a8", "a"), makeNode("a9", "a"));
  const { reservations, nextSequence } = run.world.ledger;
  const ledger = runToEnd(restoreLedger([...reservations.values()], nextSequence));
  const [first] = planGrants({ ledger, machines }, { ...policy, machinesPerPlan: 1 }, run.nowMs).steps;
  if (first === undefined) throw new Error("nothing is granted");
  const after = evolveWorld({ ledger, machines }, [buildGrantEvent(first, run.nowMs)]);
  expect(planGrants(after, policy, run.nowMs).steps).toHaveLength(1);
});
