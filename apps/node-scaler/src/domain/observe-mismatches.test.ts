import { expect, it } from "vitest";
import { aDemand, aNode, aPool, NOW } from "../../test/scaling-snapshots.ts";
import { getDemandClass } from "./acceptance.ts";
import { observeMismatches, type SizeMismatch } from "./observe-mismatches.ts";
import { restrictToDomain } from "./topology.ts";

const terms = [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }];
const demand = aDemand("a", { selection: { terms, tolerations: [] } });
const joined = (disk: string) => ({ joined: { name: "k1", labels: { disk }, taints: [] } });
const made = aNode("n1", { boundTo: "a" });
const found: SizeMismatch = {
  pool: "gpu",
  instanceType: "large",
  demandClass: getDemandClass(demand),
  node: "n1",
  untilMs: NOW + 10,
};
const observe = (
  before: readonly SizeMismatch[],
  nodes: Parameters<typeof observeMismatches>[1]["nodes"],
  { demands = [demand], nowMs = NOW, pools = [aPool()] } = {},
) => {
  const policies = new Map(pools.map((pool) => [pool.name, pool]));
  return observeMismatches(before, { nodes, demands, pools: policies, nowMs, forMs: 10 });
};

it("remembers a node that its demand does not accept, until the time is over", () => {
  const seen = observe([], [{ ...made, ...joined("hdd") }]);
  expect(seen).toEqual([found]);
  expect(observe(seen, [])).toEqual([found]);
  expect(observe(seen, [], { demands: [] })).toEqual([found]);
  expect(observe(seen, [], { nowMs: NOW + 10 })).toEqual([]);
  expect(observe(seen, [], { nowMs: NOW + 10, demands: [] })).toEqual([]);
});

it("forgets it when a node of the type is accepted, such as one with a late label", () => {
  expect(observe([found], [{ ...made, ...joined("ssd") }])).toEqual([]);
  expect(observe([found], [{ ...aNode("n2", { instanceType: "huge" }), ...joined("ssd") }])).toEqual([found]);
});

it("concludes nothing from a node that has not joined, has no binding, or is accepted", () => {
  const unbound = { ...aNode("n2"), ...joined("hdd") };
  expect(observe([], [made, unbound, { ...made, ...joined("ssd") }])).toEqual([]);
  expect(observe([], [{ ...made, ...joined("hdd") }], { demands: [aDemand("a")] })).toEqual([]);
});

it("remembers a node that is smaller than the minimum of its demand, and concludes nothing while its size is unknown", () => {
  const minimal = aDemand("a", { selection: { terms: [], tolerations: [], minimum: { cpu: 4 } } });
  const ofSize = (cpu: number | undefined) => {
    const allocatable = cpu === undefined ? undefined : new Map(Object.entries({ cpu, pods: 10 }));
    return { ...made, joined: { name: "k1", labels: {}, taints: [], allocatable } };
  };
  const demands = [minimal];
  expect(observe([], [ofSize(2)], { demands })).toEqual([{ ...found, demandClass: getDemandClass(minimal) }]);
  expect(observe([], [ofSize(4)], { demands })).toEqual([]);
  expect(observe([], [ofSize(undefined)], { demands })).toEqual([]);
});

const ZONE = "topology.kubernetes.io/zone";
const member = aDemand("a", { topology: { key: ZONE } });
const inZone = (zone: string | undefined) => ({
  joined: { name: "k1", labels: zone === undefined ? {} : { [ZONE]: zone }, taints: [] },
});
const ordered = aNode("n1", { boundTo: "a", zone: "z" });

it("remembers a node without the zone in which it was created for a topology, until a node has it", () => {
  const demandClass = getDemandClass(restrictToDomain(member, "z"));
  const missing = { ...found, demandClass };
  const demands = [member];
  for (const zone of [undefined, "y"])
    expect(observe([], [{ ...ordered, ...inZone(zone) }], { demands })).toEqual([missing]);
  expect(observe([], [{ ...ordered, ...inZone("z") }], { demands })).toEqual([]);
  expect(observe([missing], [{ ...ordered, ...inZone("z") }], { demands })).toEqual([]);
});

it("remembers a node without the configured label of its pool, for a topology of that label", () => {
  const pools = [aPool({ labels: { rack: "r1" } })];
  const demands = [aDemand("a", { topology: { key: "rack" } })];
  const demandClass = getDemandClass(restrictToDomain(demands[0] ?? member, "r1"));
  expect(observe([], [{ ...made, ...inZone("z") }], { demands, pools })).toEqual([{ ...found, demandClass }]);
  expect(observe([], [{ ...made, ...inZone("z") }], { demands })).toEqual([]);
});
