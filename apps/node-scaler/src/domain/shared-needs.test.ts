import { describe, expect, it } from "vitest";
import { checkPlans } from "../../test/plan-rows.ts";
import { aDemand, aMachine, aNode, aPool, applyPlan, aShortage, aSnapshot, NOW } from "../../test/scaling-snapshots.ts";
import { computeScaling } from "./compute.ts";
import type { Demand } from "./demand.ts";
import type { PoolPolicy } from "./pool.ts";

const amounts = (record: Readonly<Record<string, number>>) => new Map(Object.entries(record));
/** Builds a need of a part; a large node has 8 of each amount. */
const part = (name: string, cpu: number, memory = cpu, differences: Partial<Demand> = {}): Demand =>
  aDemand(name, { instanceTypes: ["large"], shared: amounts({ cpu, memory }), ...differences });
const room = (cpu: number, memory = cpu) => ({
  room: { allocatable: amounts({ cpu: 8, memory: 8, pods: 10 }), free: amounts({ cpu, memory, pods: 5 }) },
});
const sized = (differences: Partial<PoolPolicy> = {}) =>
  aPool({ instanceTypes: [{ name: "large", cpuMilli: 8, memoryBytes: 8, gpus: 0 }], ...differences });
const pools = [sized()];
const gang = { group: "gang" };

describe("needs of parts", () => {
  checkPlans([
    [
      "share one new node with room for them",
      { pools, demands: [part("a", 4), part("b", 4)] },
      { start: ["large for a"], bound: { a: "gpu-r1-0", b: "gpu-r1-0" } },
    ],
    [
      "get as many nodes as they need",
      { pools, demands: [part("a", 4), part("b", 4), part("c", 4)] },
      { start: ["large for a", "large for c"], bound: { a: "gpu-r1-0", b: "gpu-r1-0", c: "gpu-r1-1" } },
    ],
    [
      "get a node each while no size is known",
      { demands: [part("a", 1), part("b", 1)] },
      { start: ["large for a", "large for b"] },
    ],
    [
      "are limited by the number of pods, too",
      {
        pools,
        sizes: new Map([
          [
            "gpu",
            {
              byType: new Map([["large", amounts({ cpu: 8, memory: 8, pods: 2 })]]),
              overheadByType: new Map(),
              smallest: undefined,
              overhead: new Map(),
            },
          ],
        ]),
        demands: [part("a", 1), part("b", 1), part("c", 1)],
      },
      { start: ["large for a", "large for c"] },
    ],
    [
      "of one gang go the largest first, by cpu, then memory, then name",
      {
        pools: [sized({ max: 2 })],
        demands: [part("a", 3, 1, gang), part("b", 5, 1, gang), part("c", 3, 2, gang), part("d", 5, 1, gang)],
      },
      { start: ["large for b", "large for d"], bound: { b: "gpu-r1-0", d: "gpu-r1-1", c: "gpu-r1-0", a: "gpu-r1-1" } },
    ],
    [
      "come before the needs of whole nodes of their gang",
      { pools, nodes: [aNode("n1")], demands: [part("a", 1, 1, gang), aDemand("b", gang)] },
      { start: ["large for b"], bound: { a: "n1", b: "gpu-r1-0" } },
    ],
  ]);
});

describe("needs of parts, among existing nodes", () => {
  checkPlans([
    [
      "go to the most allocated node that has room",
      {
        pools,
        parts: [aMachine("m1", room(8)), aMachine("m2", room(3)), aMachine("m3", room(1))],
        demands: [part("a", 2)],
      },
      { start: [], bound: { a: "m2" } },
    ],
    [
      "go to the first of equally allocated ones by name",
      { pools, parts: [aMachine("m2", room(3)), aMachine("m1", room(3))], demands: [part("a", 2)] },
      { bound: { a: "m1" } },
    ],
    [
      "fill existing room before a node is created",
      { pools, parts: [aMachine("m1", room(2))], demands: [part("a", 2), part("b", 2)] },
      { start: ["large for b"], bound: { a: "m1", b: "gpu-r1-0" } },
    ],
    [
      "use machines that the scaler did not create",
      { pools, machines: [aMachine("m1", room(8))], demands: [part("a", 2)] },
      { start: [], bound: { a: "m1" } },
    ],
    [
      "get nothing of a machine of unknown size that the scaler did not create",
      { pools, machines: [aMachine("m1")], demands: [part("a", 2)] },
      { start: ["large for a"] },
    ],
    [
      "use free nodes, which are then no longer idle",
      { pools, nodes: [{ ...aNode("n1", { idleSinceMs: NOW - 400_000 }), ...room(8) }], demands: [part("a", 2)] },
      { start: [], stop: [], bound: { a: "n1" }, updates: ["n1 a"] },
    ],
    [
      "use a free node whose size the ledger does not know yet, as one of its type",
      { pools, nodes: [aNode("n1")], demands: [part("a", 4), part("b", 4), part("c", 1)] },
      { start: ["large for c"], bound: { a: "n1", b: "n1", c: "gpu-r1-0" } },
    ],
    [
      "use booting nodes",
      { pools, nodes: [aNode("n1", { phase: "Creating", boundTo: "a" })], demands: [part("a", 4), part("b", 4)] },
      { start: [], bound: { a: "n1", b: "n1" }, updates: [] },
    ],
    [
      "keep the name under which their node starts, whichever comes first",
      { pools, nodes: [aNode("n1", { phase: "Creating", boundTo: "b" })], demands: [part("a", 4), part("b", 4)] },
      { start: [], updates: [] },
    ],
    [
      "use no node that boots for a need of a whole node",
      { pools, nodes: [aNode("n1", { phase: "Creating", boundTo: "d" })], demands: [part("a", 4), aDemand("d")] },
      { start: ["large for a"], bound: { d: "n1", a: "gpu-r1-0" } },
    ],
    [
      "leave no whole node where they take a part",
      { pools, nodes: [{ ...aNode("n1"), ...room(8) }], demands: [part("a", 1), aDemand("b")] },
      { start: ["large for b"], bound: { a: "n1", b: "gpu-r1-0" } },
    ],
    [
      "use no machine that an older need takes as a whole",
      { pools, machines: [aMachine("m1", room(8))], demands: [part("b", 1), aDemand("a")] },
      { start: ["large for b"], bound: { a: "m1", b: "gpu-r1-0" } },
    ],
    [
      "use no node of another pool",
      {
        pools: [sized(), sized({ name: "cpu" })],
        parts: [aMachine("m1", { pool: "cpu", ...room(8) })],
        demands: [part("a", 1)],
      },
      { start: ["large for a"] },
    ],
  ]);
});

describe("a new node for needs of parts", () => {
  checkPlans([
    [
      "is of a type that is large enough",
      {
        pools: [
          sized({
            instanceTypes: [
              { name: "large", cpuMilli: 8, memoryBytes: 8, gpus: 0 },
              { name: "huge", cpuMilli: 64, memoryBytes: 64, gpus: 0 },
            ],
          }),
        ],
        demands: [part("a", 16), part("b", 8), part("c", 40)],
      },
      { start: ["huge for a"], bound: { a: "gpu-r1-0", b: "gpu-r1-0", c: "gpu-r1-0" } },
    ],
    [
      "is not created for a need that no node of the pool can hold, nor for the gang of it",
      { pools, demands: [part("a", 9, 1, gang), part("b", 1, 1, gang), part("c", 1)] },
      {
        start: ["large for c"],
        waits: ["gang TOO_LARGE a,b", "c BOOTING c"],
        messages: [
          "1 of 2 nodes that are needed together are available: no instance type of pool gpu is large enough",
          "waiting for 1 node of type large, booting for 0 s",
        ],
      },
    ],
    [
      "is not created while its type is short",
      { pools, unavailable: [aShortage()], demands: [part("a", 4), part("b", 4)] },
      { start: [], waits: ["a UNAVAILABLE a", "b UNAVAILABLE b"] },
    ],
    [
      "is not created in a full pool, and another gang may use the room",
      {
        pools: [sized({ max: 1 })],
        demands: [part("a", 8, 8, gang), part("b", 8, 8, gang), part("c", 8, 8, { createdAtMs: NOW })],
      },
      { start: ["large for c"], waits: ["gang GANG_INCOMPLETE a,b", "c BOOTING c"] },
    ],
    [
      "is counted once, however many wait for it",
      { pools, demands: [part("a", 4, 4, gang), part("b", 4, 4, gang)] },
      { messages: ["waiting for 1 node of type large, booting for 0 s"], waits: ["gang BOOTING a,b"] },
    ],
    [
      "makes needs that join it wait while it waits for its turn",
      {
        pools,
        limits: { bootsPerRound: 1, spotRequestPauseMs: 0 },
        demands: [part("a", 8), part("b", 4), part("c", 4)],
      },
      {
        start: ["large for a"],
        waits: ["a BOOTING a", "b RATE_LIMITED b", "c RATE_LIMITED c"],
        bound: { a: "gpu-r1-0" },
      },
    ],
  ]);
});

describe("the cause that blocks a pool", () => {
  const tooLarge = part("a", 9);
  const blockedOf = (demands: readonly Demand[], unavailable = [aShortage()]) =>
    computeScaling(aSnapshot({ pools, demands, unavailable })).poolScaling[0]?.blocked?.code;

  it("is no shortage while a need is too large for it", () => {
    expect(blockedOf([tooLarge], [])).toBe("TOO_LARGE");
    expect(blockedOf([part("a", 9, 1, gang), part("b", 1, 1, gang)], [])).toBe("TOO_LARGE");
  });

  it("is a shortage, although an older need is too large for it", () => {
    expect(blockedOf([tooLarge, part("b", 1)])).toBe("UNAVAILABLE");
  });
});

describe("room for needs of parts in a full pool", () => {
  const small = (name: string, cpu: number) => ({
    ...aNode(name),
    room: { allocatable: amounts({ cpu, memory: cpu, pods: 10 }), free: amounts({ cpu, memory: cpu, pods: 10 }) },
  });
  checkPlans([
    [
      "is not made of nodes for a younger part whose room the group takes",
      {
        pools: [sized({ max: 3 })],
        nodes: [small("right", 4), small("n1", 1), small("n2", 1)],
        parts: [{ ...aMachine("m1"), ...room(8) }],
        demands: [
          part("a", 8, 8, gang),
          aDemand("b", { ...gang, spot: "Always" }),
          part("younger", 4, 4, { createdAtMs: NOW }),
        ],
      },
      { stop: ["n2 IDLE", "n1 IDLE"], start: [], bound: { younger: "m1" } },
    ],
    [
      "is made by ending idle nodes that are too small",
      {
        pools: [sized({ max: 1 })],
        nodes: [{ ...aNode("n1"), room: { allocatable: amounts({ cpu: 1 }), free: amounts({ cpu: 1, pods: 1 }) } }],
        demands: [part("a", 4)],
      },
      { stop: ["n1 IDLE"], start: [] },
    ],
    [
      "is not made of a node that could hold one of them",
      {
        pools: [sized({ max: 1 })],
        nodes: [{ ...aNode("n1"), ...room(8) }],
        demands: [part("a", 8, 8, gang), part("b", 8, 8, gang)],
      },
      { stop: [], start: [], waits: ["gang GANG_INCOMPLETE a,b"] },
    ],
  ]);
});

it("changes nothing in a second round, while nodes start, and once they are ready", () => {
  const demands = [part("a", 4), part("b", 3), part("c", 4), part("d", 1), part("e", 6)];
  const first = aSnapshot({ pools, demands });
  const plan = computeScaling(first);
  expect(plan.start).toHaveLength(3);
  const world = applyPlan(first, plan, "next");
  for (const phase of ["Creating", "Available"] as const) {
    const nodes = world.nodes.map((node) => ({ ...node, status: { ...node.status, phase } }));
    const again = computeScaling({ ...world, nodes });
    expect(again.start).toEqual([]);
    expect(again.stop).toEqual([]);
    expect(again.updates).toEqual([]);
    expect(again.bindings).toEqual(plan.bindings);
  }
});
