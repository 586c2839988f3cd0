import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  toAmounts,
  makeNode,
  makeOwner,
  makeParts,
  policy,
  makeRequest,
  startRun,
  stepRun,
  type LedgerRun,
} from "../../../test/random-world.ts";
import { buildExplanation } from "./build-explanation.ts";
import { buildMachinePage } from "./list-machines.ts";
import type { ReservationRequest } from "./check-request.ts";
import { findReservation } from "../ledger/ledger.ts";
import { withNode, type NodeFacts } from "../ledger/machines.ts";
import { planGrants } from "./plan-grants.ts";
import { summarisePools } from "./summarise-pools.ts";

type Requests = Parameters<typeof makeParts>[1];

/** Each node can allocate 8 cpu, 16 memory and 5 pods, unless its facts state other amounts. */
function runOf(...nodes: readonly NodeFacts[]): LedgerRun {
  return startRun(nodes);
}

function ask(run: LedgerRun, id: string, requests: readonly Requests[], more: Partial<ReservationRequest> = {}) {
  return stepRun(run, {
    kind: "reserve",
    request: makeRequest(id, [], { needs: makeParts("a", ...requests), ...more }),
  });
}

function release(run: LedgerRun, id: string): void {
  stepRun(run, { kind: "release", owner: makeOwner(id) });
}

/** The granted nodes in the order of the needs; undefined while the owner waits. */
function nodesOf(run: LedgerRun, id: string): readonly string[] | undefined {
  return findReservation(run.world.ledger, makeOwner(id))?.grant?.machines.map(({ node }) => node);
}

function explain(run: LedgerRun, id: string) {
  const reservation = findReservation(run.world.ledger, makeOwner(id));
  if (reservation === undefined) throw new Error(`${id} has no reservation`);
  return buildExplanation(reservation, run.world, policy, run.nowMs);
}

function standings(run: LedgerRun): readonly string[] {
  const { machines } = buildMachinePage(run.world, { pool: "a", after: undefined, limit: 100 });
  return machines.map(({ node, standing }) => `${node} ${standing}`);
}

const foreign = (cpu: number, pods = 1) => ({ pods, requests: toAmounts({ cpu }), examples: ["web/shop"] });
const gpus = toAmounts({ cpu: 8, memory: 16, pods: 5, "example.com/gpu": 2 });

describe("parts of machines", () => {
  it("go to the most allocated node with room, so that whole machines stay free", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"), makeNode("a3", "a"));
    ask(run, "first", [{ cpu: 5 }]);
    ask(run, "second", [{ cpu: 4 }]);
    ask(run, "third", [{ cpu: 3 }]);
    ask(run, "fourth", [{ cpu: 4 }]);
    expect(["first", "second", "third", "fourth"].map((id) => nodesOf(run, id))).toEqual([
      ["a1"],
      ["a2"],
      ["a1"],
      ["a2"],
    ]);
    expect(standings(run)).toEqual(["a1 shared", "a2 shared", "a3 free"]);
  });

  it("go to the most allocated of several nodes with room, whatever their names", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"));
    ask(run, "first", [{ cpu: 4 }]);
    ask(run, "second", [{ cpu: 5 }]);
    ask(run, "third", [{ cpu: 1 }]);
    expect(["first", "second", "third"].map((id) => nodesOf(run, id))).toEqual([["a1"], ["a2"], ["a2"]]);
  });

  it.each<[string, readonly Requests[], readonly string[]]>([
    ["the largest first, nodes in the order of the needs", [{ cpu: 3 }, { cpu: 8 }, { cpu: 5 }], ["a2", "a1", "a2"]],
    ["equal ones by name", [{ cpu: 4 }, { cpu: 4 }, { cpu: 4 }], ["a1", "a1", "a2"]],
    ["beside whole machines", [undefined, { cpu: 1 }, undefined], ["a2", "a1", "a3"]],
    ["without requests, as many as pods fit", [{}, {}, {}, {}, {}, {}], ["a1", "a1", "a1", "a1", "a1", "a2"]],
    ["by the resource that is short", [{ memory: 10 }, { memory: 10 }], ["a1", "a2"]],
  ])("of one gang are placed %s", (_title, requests, nodes) => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"), makeNode("a3", "a"));
    ask(run, "x", requests);
    expect(nodesOf(run, "x")).toEqual(nodes);
  });

  it("use nodes with accelerators last, unless they request them", () => {
    const run = runOf(makeNode("a1", "a", { allocatable: gpus }), makeNode("a2", "a"));
    ask(run, "plain", [{ cpu: 8 }, { cpu: 6 }]);
    expect(nodesOf(run, "plain")).toEqual(["a2", "a1"]);
    ask(run, "training", [{ "example.com/gpu": 1 }, { "example.com/gpu": 1 }]);
    expect(nodesOf(run, "training")).toEqual(["a1", "a1"]);
    ask(run, "more", [{ "example.com/gpu": 1 }]);
    expect(nodesOf(run, "more")).toBeUndefined();
  });

  it("are all granted or none", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"));
    ask(run, "other", [{ cpu: 4 }]);
    ask(run, "gang", [{ cpu: 8 }, { cpu: 8 }]);
    expect(nodesOf(run, "gang")).toBeUndefined();
    expect(standings(run)).toEqual(["a1 shared", "a2 free"]);
    release(run, "other");
    expect(nodesOf(run, "gang")).toEqual(["a1", "a2"]);
  });

  it("keep a machine from being granted as a whole until the last of them is released", () => {
    const run = runOf(makeNode("a1", "a"));
    ask(run, "one", [{ cpu: 1 }]);
    ask(run, "two", [{ cpu: 1 }]);
    ask(run, "whole", [undefined]);
    release(run, "one");
    expect(nodesOf(run, "whole")).toBeUndefined();
    release(run, "two");
    expect(nodesOf(run, "whole")).toEqual(["a1"]);
  });

  it("are not granted on a node of unknown size", () => {
    const run = runOf(makeNode("a1", "a", { allocatable: undefined }), makeNode("a2", "a"));
    ask(run, "x", [{ cpu: 8 }]);
    ask(run, "y", [{ cpu: 1 }]);
    expect(nodesOf(run, "x")).toEqual(["a2"]);
    expect(nodesOf(run, "y")).toBeUndefined();
  });

  it("are refused if no machine of the pool can hold them", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"));
    const refused = (requests: readonly Requests[]) => ask(run, "x", requests);
    expect(refused([{ cpu: 9 }])).toMatchObject({ fault: { code: "pool_capacity", requested: 1, capacity: 0 } });
    expect(refused([{ cpu: 5 }, { cpu: 5 }, { cpu: 5 }])).toMatchObject({ fault: { requested: 3, capacity: 2 } });
    expect(refused([undefined, undefined, { cpu: 1 }])).toMatchObject({ fault: { requested: 3, capacity: 2 } });
  });

  it("are refused with each resource that every machine lacks", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a", { allocatable: gpus }));
    const short = (...requests: readonly Requests[]) => {
      const verdict = ask(run, "x", requests);
      return verdict?.kind === "refuse" && verdict.fault.code === "pool_capacity" ? verdict.fault.short : "not refused";
    };
    expect(short({ cpu: 9, "example.com/gpu": 3 }, { cpu: 10, memory: 16 }, { "example.com/fpga": 1 })).toEqual([
      { resource: "cpu", requested: 10, largest: 8 },
      { resource: "example.com/fpga", requested: 1, largest: 0 },
      { resource: "example.com/gpu", requested: 3, largest: 2 },
    ]);
    expect(short({ cpu: 5 }, { cpu: 5 }, { cpu: 5 })).toBeUndefined();
  });

  it("wait if a pool may get larger nodes, and keep no machine from others meanwhile", () => {
    const run = runOf(makeNode("a1", "a"));
    stepRun(run, { kind: "scale", pool: "a", scaling: { pool: "a", max: 3, exhausted: false } });
    ask(run, "large", [{ cpu: 9 }]);
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    ask(run, "small", [{ cpu: 8 }]);
    expect(nodesOf(run, "large")).toBeUndefined();
    expect(nodesOf(run, "small")).toEqual(["a1"]);
    stepRun(run, {
      kind: "node",
      facts: makeNode("a2", "a", { allocatable: toAmounts({ cpu: 16, memory: 16, pods: 5 }) }),
    });
    expect(nodesOf(run, "large")).toEqual(["a2"]);
  });
});

it("plans fewer parts at a time the more bytes they take", () => {
  const long = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`${"long.".repeat(40)}example.com/r${n}`, 1]));
  const node = makeNode("a1", "a", { allocatable: toAmounts({ ...long, pods: 100 }) });
  const large = makeNode("a1", "a", {
    allocatable: new Map([...(node.allocatable ?? [])].map(([name]) => [name, 100])),
  });
  const run = runOf(node);
  for (let number = 0; number < 10; number += 1) ask(run, `x${number}`, [long]);
  const world = { ...run.world, machines: withNode(run.world.machines, large) };
  const bounded = { ...policy, machinesPerPlan: 10 };
  expect(planGrants(world, bounded, 0)).toMatchObject({ steps: { length: 2 }, complete: false });
});

describe("foreign pods", () => {
  it("prevent a node from being granted as a whole, and leave the rest of it for parts", () => {
    const run = runOf(makeNode("a1", "a", { foreign: foreign(6) }));
    ask(run, "whole", [undefined]);
    ask(run, "part", [{ cpu: 2 }]);
    ask(run, "more", [{ cpu: 1 }]);
    expect([nodesOf(run, "whole"), nodesOf(run, "part"), nodesOf(run, "more")]).toEqual([undefined, ["a1"], undefined]);
    stepRun(run, { kind: "node", facts: makeNode("a1", "a") });
    expect(nodesOf(run, "more")).toEqual(["a1"]);
    for (const id of ["part", "more"]) release(run, id);
    expect(nodesOf(run, "whole")).toEqual(["a1"]);
  });

  it("end no granted work when they arrive later", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"));
    ask(run, "whole", [undefined]);
    ask(run, "part", [{ cpu: 8 }]);
    for (const name of ["a1", "a2"])
      stepRun(run, { kind: "node", facts: makeNode(name, "a", { foreign: foreign(8) }) });
    expect([nodesOf(run, "whole"), nodesOf(run, "part")]).toEqual([["a1"], ["a2"]]);
    expect(standings(run)).toEqual(["a1 held", "a2 shared"]);
  });

  it("include those of an owner after its part is released, until they are gone", () => {
    const run = runOf(makeNode("a1", "a"));
    ask(run, "old", [{ cpu: 8 }]);
    const shared = [{ owner: makeOwner("old"), use: foreign(8) }];
    stepRun(run, { kind: "node", facts: makeNode("a1", "a", { ownerUses: shared }) });
    release(run, "old");
    ask(run, "new", [{ cpu: 1 }]);
    expect(nodesOf(run, "new")).toBeUndefined();
    stepRun(run, { kind: "node", facts: makeNode("a1", "a") });
    expect(nodesOf(run, "new")).toEqual(["a1"]);
  });

  it("include those of a replica set that picks its nodes itself and holds no machine", () => {
    const owner = { kind: "replica-set", id: "web" };
    const run = runOf(makeNode("a1", "a", { ownerUses: [{ owner, use: foreign(6) }] }));
    ask(run, "whole", [undefined]);
    ask(run, "part", [{ cpu: 2 }]);
    ask(run, "more", [{ cpu: 1 }]);
    expect([nodesOf(run, "whole"), nodesOf(run, "part"), nodesOf(run, "more")]).toEqual([undefined, ["a1"], undefined]);
  });

  it("are named in the explanation", () => {
    const run = runOf(makeNode("a1", "a", { foreign: foreign(1) }), makeNode("a2", "a"));
    ask(run, "x", [undefined, undefined]);
    const { pools, message } = explain(run, "x");
    expect(pools[0]?.unusable.listed).toMatchObject([{ node: "a1", reason: "FOREIGN_USE", foreign: foreign(1) }]);
    expect(message).toContain("1 node has pods that the ledger does not know (web/shop)");
  });
});

it("sums the free amounts of a pool, shared machines included, and all foreign use", () => {
  const run = runOf(
    makeNode("a1", "a", { foreign: foreign(1) }),
    makeNode("a2", "a"),
    makeNode("a3", "a"),
    makeNode("a4", "a", { ready: false, foreign: foreign(2) }),
    makeNode("a5", "a", { allocatable: undefined }),
    makeNode("b1", "b"),
  );
  ask(run, "part", [{ cpu: 3 }]);
  ask(run, "whole", [undefined, undefined]);
  const { machines } = run.world;
  expect(summarisePools(machines).get("a")).toEqual({
    allocatable: toAmounts({ cpu: 24, memory: 48, pods: 15 }),
    free: toAmounts({ cpu: 12, memory: 32, pods: 8 }),
    foreign: { pods: 2, requests: toAmounts({ cpu: 3 }) },
    overcommitted: [],
    held: 2,
  });
  expect(summarisePools(machines)).toBe(summarisePools({ ...machines }));
});

it("counts machines that foreign pods overcommit after the grant", () => {
  const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"), makeNode("a3", "a"));
  ask(run, "part", [{ cpu: 6 }]);
  ask(run, "whole", [undefined]);
  const excess = () => {
    const { machines } = buildMachinePage(run.world, { pool: "a", after: undefined, limit: 100 });
    return machines.flatMap(({ node, excess: over }) => (over.size === 0 ? [] : [[node, Object.fromEntries(over)]]));
  };
  const names = () => summarisePools(run.world.machines).get("a")?.overcommitted;
  for (const name of ["a1", "a3"]) stepRun(run, { kind: "node", facts: makeNode(name, "a", { foreign: foreign(2) }) });
  expect([excess(), names()]).toEqual([[], []]);
  for (const name of ["a1", "a2", "a3"])
    stepRun(run, { kind: "node", facts: makeNode(name, "a", { foreign: foreign(3) }) });
  expect(excess()).toEqual([
    ["a1", { cpu: 1 }],
    ["a2", { cpu: 3, pods: 1 }],
  ]);
  expect(names()).toEqual(["a1", "a2"]);
  for (const id of ["part", "whole"]) release(run, id);
  expect(names()).toEqual([]);
});

describe("use beyond what is granted", () => {
  const seen = (cpu: number, pods = 1) => [
    { owner: makeOwner("one"), use: { pods, requests: toAmounts({ cpu }), examples: [] } },
  ];

  it.each<[string, ReturnType<typeof seen>, boolean]>([
    ["as much as its part", seen(2), true],
    ["more than its part", seen(6), false],
    ["two pods for one part", seen(6, 2), false],
  ])("by an owner whose pods request %s is counted", (_title, shared, fits) => {
    const run = runOf(makeNode("a1", "a"));
    ask(run, "one", [{ cpu: 2 }]);
    stepRun(run, { kind: "node", facts: makeNode("a1", "a", { ownerUses: shared }) });
    ask(run, "two", [{ cpu: 6 }]);
    expect(nodesOf(run, "two")).toEqual(fits ? ["a1"] : undefined);
  });

  it("adds no part to a node that has shrunk, and ends none", () => {
    const run = runOf(makeNode("a1", "a"));
    ask(run, "one", [{ cpu: 8 }]);
    stepRun(run, {
      kind: "node",
      facts: makeNode("a1", "a", { allocatable: toAmounts({ cpu: 4, memory: 16, pods: 5 }) }),
    });
    ask(run, "two", [{}]);
    expect([nodesOf(run, "one"), nodesOf(run, "two")]).toEqual([["a1"], undefined]);
    release(run, "one");
    expect(nodesOf(run, "two")).toEqual(["a1"]);
  });
});

describe("a pool of several sizes", () => {
  const size = (cpu: number) => ({ allocatable: toAmounts({ cpu, memory: 64, pods: 20 }) });

  it("grants or refuses each gang immediately while nothing else is granted", () => {
    const cpus = fc.array(fc.integer({ min: 2, max: 6 }), { minLength: 1, maxLength: 5 });
    const gang = fc.array(fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }), {
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(cpus, gang, (sizes, parts) => {
        const run = runOf(...sizes.map((cpu, index) => makeNode(`a${index}`, "a", size(cpu))));
        const verdict = ask(
          run,
          "x",
          parts.map((cpu) => (cpu === undefined ? undefined : { cpu })),
        );
        expect(["grant", "refuse"]).toContain(verdict?.kind);
      }),
      { numRuns: 1000 },
    );
  });

  it("answers that the decision is pending while some node has no known size", () => {
    const run = runOf(makeNode("a1", "a", size(2)), makeNode("a2", "a", { allocatable: undefined }));
    expect(ask(run, "x", [{ cpu: 3 }])).toMatchObject({ kind: "refuse", fault: { code: "unavailable" } });
    stepRun(run, { kind: "node", facts: makeNode("a2", "a", size(2)) });
    expect(ask(run, "x", [{ cpu: 3 }])).toMatchObject({ kind: "refuse", fault: { code: "pool_capacity" } });
  });
});

describe("a hold", () => {
  /** Counts the parts of 2 cpu that arrive and end one after the other, until the owner is granted. */
  function overtake(run: LedgerRun, id: string): number {
    for (let number = 0; number < 100; number += 1) {
      if (nodesOf(run, id) !== undefined) return number;
      ask(run, `late${number}`, [{ cpu: 2 }]);
      if (number >= 3) release(run, `late${number - 3}`);
    }
    return Number.POSITIVE_INFINITY;
  }

  it.each<[string, readonly NodeFacts[], Requests]>([
    ["a whole machine", [makeNode("a1", "a"), makeNode("a2", "a")], undefined],
    [
      "a part beside a node with foreign pods",
      [makeNode("a1", "a", { foreign: foreign(1) }), makeNode("a2", "a")],
      { cpu: 8 },
    ],
    [
      "a part of a node with accelerators",
      [makeNode("a1", "a"), makeNode("a2", "a", { allocatable: gpus })],
      { "example.com/gpu": 2 },
    ],
  ])("lets no later part overtake %s forever", (_title, nodes, request) => {
    const run = runOf(...nodes);
    for (let number = 0; number < 4; number += 1)
      ask(run, `first${number}`, [{ cpu: 2, ...(number === 3 && request) }]);
    for (let number = 4; number < 8; number += 1) ask(run, `first${number}`, [{ cpu: 1 }]);
    ask(run, "x", [request]);
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    for (let number = 0; number < 8; number += 1) {
      ask(run, `more${number}`, [{ cpu: 1 }]);
      release(run, `first${number}`);
    }
    expect(overtake(run, "x")).toBeLessThan(20);
  });

  it("does not exist for a request that only nodes with foreign pods could complete", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a", { foreign: foreign(1) }));
    ask(run, "all", [undefined, undefined]);
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    ask(run, "one", [undefined]);
    expect(nodesOf(run, "one")).toEqual(["a1"]);
    stepRun(run, { kind: "node", facts: makeNode("a2", "a") });
    release(run, "one");
    expect(nodesOf(run, "all")).toEqual(["a1", "a2"]);
  });

  it("for whole machines keeps the least allocated node free of new parts, so that small work cannot starve it", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"));
    ask(run, "one", [{ cpu: 6 }]);
    ask(run, "two", [{ cpu: 3 }]);
    ask(run, "large", [undefined]);
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    ask(run, "small", [{ cpu: 2 }]);
    ask(run, "medium", [{ cpu: 3 }]);
    expect([nodesOf(run, "small"), nodesOf(run, "medium")]).toEqual([["a1"], undefined]);
    expect(explain(run, "medium").because).toMatchObject({ code: "HELD_FOR_OLDER", requested: 1, available: 0 });
    release(run, "two");
    expect(nodesOf(run, "large")).toEqual(["a2"]);
  });

  it("for parts keeps the room that they have, and a node for each part without room", () => {
    const run = runOf(makeNode("a1", "a"), makeNode("a2", "a"));
    ask(run, "one", [{ cpu: 8 }]);
    ask(run, "two", [{ cpu: 2 }]);
    ask(run, "gang", [{ cpu: 6 }, { cpu: 6 }]);
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    ask(run, "small", [{ cpu: 1 }]);
    expect(nodesOf(run, "small")).toBeUndefined();
    release(run, "one");
    expect(nodesOf(run, "gang")).toEqual(["a2", "a1"]);
    expect(nodesOf(run, "small")).toEqual(["a1"]);
  });
});

it.each<[string, Readonly<Record<string, number>>, object]>([
  ["an invalid name", { "": 1 }, { code: "invalid_request" }],
  [
    "too many names",
    Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`r${n}`, 1])),
    { code: "limit_exceeded" },
  ],
  [
    "names that are too long together",
    Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`${"long.".repeat(40)}example.com/r${n}`, 1])),
    { code: "limit_exceeded", what: "bytes of the requests of all needs" },
  ],
  ["a fraction", { cpu: 0.5 }, { code: "invalid_request", field: "needs[0].shared.requests[cpu]" }],
])("refuses requests with %s", (_title, requests, fault) => {
  const many = Array.from({ length: 100 }, () => requests);
  expect(ask(runOf(makeNode("a1", "a")), "x", many)).toMatchObject({ kind: "refuse", fault });
});
