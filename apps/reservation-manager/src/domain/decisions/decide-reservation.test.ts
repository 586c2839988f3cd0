import { describe, expect, it } from "vitest";
import { makeNode, makeOwner, policy, makeRequest, startRun, stepRun, toAmounts } from "../../../test/random-world.ts";
import { MAX_NEEDS, type ReservationRequest } from "./check-request.ts";
import { decideReservation } from "./decide-reservation.ts";
import { emptyLedger } from "../ledger/ledger.ts";
import { buildMachines, withCompleteness, type NodeFacts } from "../ledger/machines.ts";
import { evolveWorld, type World } from "../ledger/world.ts";

const nodes = [makeNode("a1", "a"), makeNode("a2", "a"), makeNode("b1", "b"), makeNode("b2", "b"), makeNode("b3", "b")];

/** Returns the fault of the request, submitted after `before`; undefined: the request is not refused. */
function refusal(request: ReservationRequest, before: readonly ReservationRequest[] = [], live = nodes) {
  const run = startRun(live);
  for (const earlier of before) stepRun(run, { kind: "reserve", request: earlier });
  const verdict = decideReservation(request, run.world, policy, run.nowMs);
  return verdict.kind === "refuse" ? verdict.fault : undefined;
}

describe("a refusal", () => {
  it.each<[string, ReservationRequest, readonly ReservationRequest[], object]>([
    [
      "names the first unknown pool by name before any number is checked, and the existing pools",
      makeRequest("x", ["a", "a", "a", "zebra", "mars"]),
      [],
      { code: "pool_unknown", pool: "mars", known: ["a", "b"] },
    ],
    [
      "names the first pool that is too small, with both numbers in the right order",
      makeRequest("x", ["b", "b", "b", "b", "a", "a", "a", "a", "a"]),
      [],
      { code: "pool_capacity", pool: "a", requested: 5, capacity: 2 },
    ],
    [
      "names a pool that is too small before one that is short now",
      makeRequest("x", ["a", "b", "b", "b", "b"], { wait: false }),
      [makeRequest("y", ["a", "a"])],
      { code: "pool_capacity", pool: "b", requested: 4, capacity: 3 },
    ],
    [
      "states how many are free when machines are short now",
      makeRequest("x", ["b", "a", "a"], { wait: false }),
      [makeRequest("y", ["a"])],
      { code: "pool_availability", pool: "a", requested: 2, available: 1 },
    ],
    [
      "is returned to an owner that requests other machines than it has",
      makeRequest("x", ["a", "b"]),
      [makeRequest("x", ["a"])],
      { code: "reservation_differs", ownerKind: "session", ownerId: "ox" },
    ],
    [
      "names the concurrency limit to an owner that does not wait",
      makeRequest("x", ["a"], { wait: false, concurrencyLimit: 1 }),
      [makeRequest("y", ["a"])],
      { code: "limit_exceeded", limit: 1, what: "number of granted reservations of kind session" },
    ],
    ["is returned to a request without needs", makeRequest("x", []), [], { code: "invalid_request", field: "needs" }],
    [
      "is returned to an owner whose id is no DNS label",
      { ...makeRequest("x", ["a"]), owner: { kind: "session", id: "A_B" } },
      [],
      { code: "invalid_request", field: "owner.id" },
    ],
    [
      "is returned to two components of one name",
      {
        ...makeRequest("x", []),
        needs: [
          { component: "c", pool: "a" },
          { component: "c", pool: "b" },
        ],
      },
      [],
      { code: "invalid_request", field: "needs[1].component" },
    ],
    [
      "is returned to a pool without a name",
      makeRequest("x", ["a", ""]),
      [],
      { code: "invalid_request", field: "needs[1].pool" },
    ],
    [
      "is returned to a pool whose name is no label value",
      makeRequest("x", ["a b"]),
      [],
      { code: "invalid_request", field: "needs[0].pool" },
    ],
    [
      "names the limit of needs",
      makeRequest(
        "x",
        Array.from({ length: MAX_NEEDS + 1 }, () => "a"),
      ),
      [],
      { code: "limit_exceeded", limit: MAX_NEEDS, retryAfterMs: 0 },
    ],
  ])("%s", (_title, request, before, fault) => {
    expect(refusal(request, before)).toMatchObject(fault);
  });

  it("names the queue's limit and when to retry", () => {
    const run = startRun([makeNode("a1", "a")]);
    stepRun(run, { kind: "reserve", request: makeRequest("holder", ["a"]) });
    stepRun(run, { kind: "reserve", request: makeRequest("first", ["a"]) });
    const verdict = decideReservation(makeRequest("second", ["a"]), run.world, { ...policy, queueLimit: 1 }, 0);
    expect(verdict).toMatchObject({ kind: "refuse", fault: { code: "limit_exceeded", limit: 1, retryAfterMs: 5000 } });
  });
});

describe("what counts as capacity", () => {
  const request = makeRequest("x", ["a", "a"]);
  it.each<[string, Partial<NodeFacts>, number | undefined]>([
    ["a ready node counts", {}, undefined],
    ["a cordoned node does not", { schedulable: false }, 1],
    ["a node that is not ready does not", { ready: false }, 1],
    ["a node that a former owner occupies counts", { occupants: [makeOwner("former")] }, undefined],
    ["an occupied node that is not ready does not", { ready: false, occupants: [makeOwner("former")] }, 1],
  ])("%s", (_title, second, capacity) => {
    const fault = refusal(request, [], [makeNode("a1", "a"), makeNode("a2", "a", second)]);
    expect(fault).toEqual(
      capacity === undefined ? undefined : { code: "pool_capacity", pool: "a", requested: 2, capacity },
    );
  });

  it("includes released machines that still show their last holder's pods, but does not grant them", () => {
    const run = startRun([makeNode("a1", "a")]);
    stepRun(run, { kind: "reserve", request: makeRequest("first", ["a"]) });
    stepRun(run, { kind: "node", facts: makeNode("a1", "a", { occupants: [makeOwner("first")] }) });
    stepRun(run, { kind: "release", owner: makeOwner("first") });
    expect(stepRun(run, { kind: "reserve", request: makeRequest("next", ["a"]) })).toMatchObject({ kind: "queue" });
    stepRun(run, { kind: "node", facts: makeNode("a1", "a") });
    expect(run.world.ledger.holders.get("a1")).toBe(2);
  });

  it("includes occupied machines for a leader that did not see their release, but does not grant them", () => {
    const run = startRun([makeNode("a1", "a", { occupants: [makeOwner("former")] })]);
    expect(stepRun(run, { kind: "reserve", request: makeRequest("next", ["a"], { wait: false }) })).toMatchObject({
      fault: { code: "pool_availability", available: 0 },
    });
    expect(stepRun(run, { kind: "reserve", request: makeRequest("next", ["a"]) })).toMatchObject({ kind: "queue" });
    stepRun(run, { kind: "node", facts: makeNode("a1", "a") });
    expect(run.world.ledger.holders.get("a1")).toBe(1);
  });

  describe("while not all nodes are known", () => {
    const machines = withCompleteness(buildMachines([makeNode("a1", "a")], emptyLedger), false);
    const decide = (request: ReservationRequest, world: World = { ledger: emptyLedger, machines }) =>
      decideReservation(request, world, policy, 0);
    const notKnown = { kind: "refuse", fault: { code: "unavailable", retryAfterMs: 1000 } };

    it("refuses nothing: the owner is asked to retry", () => {
      expect(decide(makeRequest("x", ["b"]))).toMatchObject(notKnown);
      expect(decide(makeRequest("x", ["a", "a"]))).toMatchObject(notKnown);
      expect(decide(makeRequest("x", ["a", "a"], { wait: false }))).toMatchObject(notKnown);
    });

    it("grants nothing, because a node that looks free may be gone, but queues requests that will fit", () => {
      const first = decide(makeRequest("x", ["a"]));
      expect(first).toMatchObject({ kind: "queue", because: "POOLS_NOT_KNOWN_YET" });
      if (first.kind !== "queue") return;
      const after = evolveWorld({ ledger: emptyLedger, machines }, first.events);
      expect(decide(makeRequest("x", ["a"]), after)).toMatchObject({ kind: "answer" });
      expect(decide(makeRequest("y", ["a"], { wait: false }), after)).toMatchObject(notKnown);
    });

    it("gives the final answer once all nodes are known", () => {
      const known = { ledger: emptyLedger, machines: withCompleteness(machines, true) };
      expect(decide(makeRequest("x", ["b"]), known)).toMatchObject({ fault: { code: "pool_unknown" } });
      expect(decide(makeRequest("x", ["a", "a"]), known)).toMatchObject({ fault: { code: "pool_capacity" } });
    });
  });

  it("does not count a held node as held while it shows another owner's pod", () => {
    const run = startRun([makeNode("a1", "a"), makeNode("a2", "a")]);
    stepRun(run, { kind: "reserve", request: makeRequest("first", ["a"]) });
    stepRun(run, { kind: "node", facts: makeNode("a1", "a", { occupants: [makeOwner("first")] }) });
    expect(run.world.machines.pools.get("a")).toMatchObject({ held: 1, occupied: 0 });
    stepRun(run, {
      kind: "node",
      facts: makeNode("a1", "a", { occupants: [makeOwner("first"), makeOwner("foreign")] }),
    });
    expect(run.world.machines.pools.get("a")).toMatchObject({ held: 0, occupied: 1, notReady: 0, cordoned: 0 });
  });
});

describe("a part of an owner that holds machines by itself", () => {
  it("has the pods of the whole owner on them, and no others", () => {
    const run = startRun([makeNode("a1", "a")]);
    stepRun(run, {
      kind: "reserve",
      request: makeRequest(0, ["a"], { owner: { kind: "job", id: "train--worker-7" } }),
    });
    const seen = (id: string): void => {
      stepRun(run, { kind: "node", facts: makeNode("a1", "a", { occupants: [{ kind: "job", id }] }) });
    };
    const pool = () => run.world.machines.pools.get("a");
    seen("train");
    expect(pool()).toMatchObject({ held: 1, occupied: 0 });
    for (const foreign of ["trai", "train-other", "train--worker-7--a"]) {
      seen(foreign);
      expect(pool(), foreign).toMatchObject({ held: 0, occupied: 1 });
    }
  });
});

describe("a grant", () => {
  it("gives each component a node of its pool, nodes in the order of their names", () => {
    const run = startRun([...nodes].reverse());
    stepRun(run, { kind: "reserve", request: makeRequest("x", ["b", "a", "b"]) });
    expect(run.world.ledger.reservations.get(1)?.grant?.machines).toEqual([
      { component: "c0", pool: "b", node: "b1" },
      { component: "c1", pool: "a", node: "a1" },
      { component: "c2", pool: "b", node: "b2" },
    ]);
  });

  it("gives whole machines with extended resources last, whatever their names and sizes", () => {
    const special = { allocatable: toAmounts({ cpu: 4, memory: 8, pods: 5, "example.com/gpu": 2 }) };
    const run = startRun([makeNode("a1", "a", special), makeNode("a2", "a"), makeNode("a3", "a")]);
    stepRun(run, { kind: "reserve", request: makeRequest("x", ["a", "a"]) });
    stepRun(run, { kind: "reserve", request: makeRequest("y", ["a"]) });
    expect([...run.world.ledger.holders.entries()]).toEqual([
      ["a1", 2],
      ["a2", 1],
      ["a3", 1],
    ]);
  });

  it("is found by a repeated request of its owner, whatever the order of its components", () => {
    const run = startRun(nodes);
    const request = makeRequest("x", ["b", "a"]);
    stepRun(run, { kind: "reserve", request });
    const again = { ...request, needs: [...request.needs].reverse(), wait: false, priority: 7 };
    expect(stepRun(run, { kind: "reserve", request: again })).toMatchObject({ kind: "answer", sequence: 1 });
  });

  it("keeps a lost node, and does not grant it to another owner when it returns", () => {
    const run = startRun([makeNode("a1", "a"), makeNode("a2", "a")]);
    stepRun(run, { kind: "reserve", request: makeRequest("x", ["a"]) });
    stepRun(run, { kind: "lose", node: "a1" });
    stepRun(run, { kind: "node", facts: makeNode("a1", "a") });
    stepRun(run, { kind: "reserve", request: makeRequest("y", ["a"]) });
    expect([...run.world.ledger.holders.entries()]).toEqual([
      ["a1", 1],
      ["a2", 2],
    ]);
  });

  it("keeps a node whose label names another pool now", () => {
    const run = startRun([makeNode("a1", "a"), makeNode("b1", "b")]);
    stepRun(run, { kind: "reserve", request: makeRequest("x", ["a"]) });
    stepRun(run, { kind: "node", facts: makeNode("a1", "b") });
    expect(stepRun(run, { kind: "reserve", request: makeRequest("y", ["b", "b"]) })).toMatchObject({ kind: "queue" });
    expect(stepRun(run, { kind: "reserve", request: makeRequest("z", ["b"]) })).toMatchObject({ kind: "grant" });
    expect(run.world.ledger.holders.get("b1")).toBe(3);
  });
});
