import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkPlans } from "../../test/plan-rows.ts";
import {
  aDemand,
  aGang,
  aMachine,
  aNode,
  aPool,
  applyPlan,
  aShortage,
  aSnapshot,
} from "../../test/scaling-snapshots.ts";
import { buildDemands } from "./build-demands.ts";
import { computeScaling } from "./compute.ts";
import type { Demand } from "./demand.ts";

/** Builds equal demands for each of the pools, the first pool preferred. */
function anyOf(demands: readonly Demand[], ...pools: readonly string[]): Demand[] {
  return pools.flatMap((pool, option) => demands.map((demand) => ({ ...demand, pool, option })));
}

const one = anyOf([aDemand("d1")], "gpu", "cpu");
const gang = anyOf(aGang(2), "gpu", "cpu");
const pools = (gpu: number, cpu: number) => [aPool({ max: gpu }), aPool({ name: "cpu", max: cpu })];

describe("work that accepts several pools", () => {
  checkPlans([
    [
      "gets nodes in the preferred pool",
      { demands: gang, pools: pools(2, 2) },
      { start: ["large for gang/0", "large for gang/1"], bound: { "gang/0": "gpu-r1-0" } },
    ],
    [
      "gets nodes in the next pool if the maximum of the first prevents them",
      { demands: gang, pools: pools(1, 2) },
      { bound: { "gang/0": "cpu-r1-0", "gang/1": "cpu-r1-1" }, waits: ["gang BOOTING gang/0,gang/1"] },
    ],
    [
      "gets nodes in the next pool if boots of the first fail",
      { demands: one, pools: pools(1, 1), unavailable: [aShortage({ pool: "gpu" })] },
      { bound: { d1: "cpu-r1-0" } },
    ],
    [
      "gets no new node if another pool has a free machine",
      { demands: one, pools: pools(1, 1), machines: [aMachine("m1", { pool: "cpu" })] },
      { start: [], bound: { d1: "m1" } },
    ],
    [
      "waits for the node that boots for it, and gets no second one in the preferred pool",
      { demands: one, pools: pools(1, 1), nodes: [aNode("n1", { pool: "cpu", phase: "Creating", boundTo: "d1" })] },
      { start: [], stop: [], bound: { d1: "n1" } },
    ],
    [
      "completes the gang in the pool where it has a node already",
      {
        demands: gang,
        pools: pools(2, 2),
        nodes: [aNode("n1", { pool: "cpu", phase: "Creating", boundTo: "gang/0" })],
      },
      { start: ["large for gang/1"], bound: { "gang/0": "n1", "gang/1": "cpu-r1-0" } },
    ],
    [
      "explains the preferred pool if no pool can grow enough",
      { demands: gang, pools: pools(1, 1) },
      { start: [], waits: ["gang GANG_INCOMPLETE gang/0,gang/1"] },
    ],
    [
      "gets nodes in the pool that is scaled, if only one is",
      { demands: one, pools: [aPool({ name: "cpu" })] },
      { bound: { d1: "cpu-r1-0" }, ignored: [] },
    ],
  ]);

  it("gets nodes once, whatever is planned before it", () => {
    const demand = fc.record({
      choice: fc.constantFrom<[string, ...string[]]>(["gpu"], ["cpu"], ["gpu", "cpu"], ["cpu", "gpu"]),
      size: fc.integer({ min: 1, max: 3 }),
    });
    const max = fc.integer({ min: 0, max: 4 });
    fc.assert(
      fc.property(fc.array(demand, { maxLength: 5 }), max, max, (groups, gpu, cpu) => {
        const demands = groups.flatMap(({ choice, size }, index) => {
          const group = `g${index}`;
          const members = Array.from({ length: size }, (_, number) =>
            aDemand(`${group}/${number}`, { group, pool: choice[0] }),
          );
          return choice.length === 1 ? members : anyOf(members, ...choice);
        });
        const snapshot = aSnapshot({ demands, pools: pools(gpu, cpu) });
        const plan = computeScaling(snapshot);
        expect(new Set(plan.start.map(({ boundTo }) => boundTo)).size).toBe(plan.start.length);
        const next = computeScaling(applyPlan(snapshot, plan, "r2"));
        expect({ start: next.start, stop: next.stop, bindings: next.bindings }).toEqual({
          start: [],
          stop: [],
          bindings: plan.bindings,
        });
      }),
      { numRuns: 300 },
    );
  });
});

it("has the demands of a reservation once for each choice of pools", () => {
  const owner = { kind: "job", id: "train" };
  const needs = [
    { component: "worker-0", pool: "gpu", otherPools: ["cpu"] },
    { component: "driver-0", pool: "cpu" },
  ];
  const policies = new Map(pools(1, 1).map((pool) => [pool.name, pool]));
  const demands = buildDemands([{ owner, createdAtMs: 1, needs }], policies);
  expect(demands.map(({ name, pool, option }) => `${name} ${pool} ${option}`)).toEqual([
    "job/train/worker-0 gpu 0",
    "job/train/driver-0 cpu 0",
    "job/train/worker-0 cpu 1",
    "job/train/driver-0 cpu 1",
  ]);
});
