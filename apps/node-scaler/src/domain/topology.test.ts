import { describe, expect, it } from "vitest";
import { checkPlans } from "../../test/plan-rows.ts";
import {
  aDemand,
  aGang,
  aMachine,
  aNode,
  aPool,
  aShortage,
  aSnapshot,
  applyPlan,
  NOW,
} from "../../test/scaling-snapshots.ts";
import { computeScaling } from "./compute.ts";

const KEY = "topology.kubernetes.io/zone";
const topology = { key: KEY };
const pools = [aPool({ zones: ["a", "b"], max: 10 })];
const inZone = (name: string, zone: string | undefined) => ({
  joined: { name, labels: zone === undefined ? {} : { [KEY]: zone }, taints: [] },
});
const free = (name: string, zone: string) => ({ ...aNode(name, { zone, idleSinceMs: NOW }), ...inZone(name, zone) });
const amounts = (record: Readonly<Record<string, number>>) => new Map(Object.entries(record));

describe("a gang in one zone", () => {
  checkPlans([
    [
      "gets all of its nodes in the first zone by name if none is better",
      { pools: [aPool({ zones: ["b", "a"] })], demands: aGang(2, { topology }) },
      { start: ["large in a for gang/0", "large in a for gang/1"] },
    ],
    [
      "gets its missing nodes in the zone with the most free nodes for it, and counts no others",
      { pools, nodes: [free("n1", "a"), free("n2", "b"), free("n3", "b")], demands: aGang(3, { topology }) },
      { start: ["large in b for gang/2"], bound: { "gang/0": "n2", "gang/1": "n3", "gang/2": "gpu-r1-0" } },
    ],
    [
      "uses another zone if its own is short",
      {
        pools,
        unavailable: [aShortage({ zone: "a" })],
        nodes: [free("n1", "a")],
        demands: aGang(2, { topology }),
      },
      { start: ["large in b for gang/0", "large in b for gang/1"] },
    ],
    [
      "uses free machines of a zone in which the pool creates none",
      { pools, machines: [aMachine("m1", inZone("m1", "c"))], demands: aGang(1, { topology }) },
      { start: [], bound: { "gang/0": "m1" } },
    ],
    [
      "counts no machine whose zone is not known, and no node without the label",
      {
        pools,
        machines: [aMachine("m1"), aMachine("m2", inZone("m2", undefined))],
        nodes: [{ ...aNode("n1", { zone: "a" }), ...inZone("n1", undefined) }],
        demands: aGang(1, { topology }),
      },
      { start: ["large in a for gang/0"] },
    ],
    [
      "waits for the nodes that boot in its zone",
      {
        pools,
        nodes: [
          aNode("n1", { phase: "Created", zone: "b", boundTo: "gang/0" }),
          aNode("n2", { phase: "Creating", zone: "b", boundTo: "gang/1" }),
        ],
        demands: aGang(2, { topology }),
      },
      { start: [], updates: [], waits: ["gang BOOTING gang/0,gang/1"] },
    ],
    [
      "stays in its zone when another one has as many nodes",
      {
        pools,
        nodes: [free("n1", "a"), { ...free("n2", "b"), ...aNode("n2", { zone: "b", boundTo: "gang/0" }) }],
        demands: aGang(1, { topology }),
      },
      { start: [], bound: { "gang/0": "n2" } },
    ],
    [
      "releases nodes that an earlier version bound to it in two zones",
      {
        pools,
        nodes: ["a", "a", "b", "b"].map((zone, index) => ({
          ...aNode(`n${index}`, { zone, boundTo: `gang/${index}` }),
          ...inZone(`n${index}`, zone),
        })),
        demands: aGang(4, { topology }),
      },
      {
        start: ["large in a for gang/2", "large in a for gang/3"],
        updates: ["n2 idle from now", "n3 idle from now"],
      },
    ],
    [
      "ends idle nodes of other zones when the pool is full",
      {
        pools: [aPool({ zones: ["a", "b"], max: 4 })],
        nodes: [free("n1", "a"), free("n2", "a"), free("n3", "b"), free("n4", "b")],
        demands: aGang(4, { topology }),
      },
      {
        start: [],
        stop: ["n4 IDLE", "n3 IDLE"],
        messages: [
          "2 of 4 nodes that are needed together are available: pool gpu has 4 nodes of 4 at most, in topology.kubernetes.io/zone=a",
        ],
      },
    ],
    [
      "keeps to the zones that its template selects",
      {
        pools,
        demands: aGang(2, {
          topology,
          selection: {
            terms: [{ matchExpressions: [{ key: KEY, operator: "NotIn", values: ["a"] }] }],
            tolerations: [],
          },
        }),
      },
      { start: ["large in b for gang/0", "large in b for gang/1"] },
    ],
    [
      "gets none while the zones of its pool are not known",
      { demands: aGang(2, { topology }) },
      {
        start: [],
        waits: ["gang TOPOLOGY gang/0,gang/1"],
        messages: [`2 nodes needed: no value of ${KEY} is known that all of these nodes can have`],
      },
    ],
    [
      "gets its nodes in the zone that the labels of its pool state",
      { pools: [aPool({ labels: { [KEY]: "z" } })], demands: aGang(1, { topology }) },
      { start: ["large in z for gang/0"] },
    ],
    [
      "leaves nodes of other zones to a gang behind it",
      {
        pools,
        nodes: [free("n1", "a"), free("n2", "b")],
        demands: [aDemand("one", { topology, createdAtMs: 1 }), aDemand("two", { topology, createdAtMs: 2 })],
      },
      { start: [], bound: { one: "n1", two: "n2" } },
    ],
    [
      "places its parts on nodes of one zone",
      {
        pools: [
          aPool({
            zones: ["a", "b"],
            instanceTypes: [{ name: "large", cpuMilli: 8, memoryBytes: undefined, gpus: 0 }],
          }),
        ],
        parts: ["a", "b"].map((zone) =>
          aMachine(`m-${zone}`, {
            room: { allocatable: amounts({ cpu: 8, pods: 10 }), free: amounts({ cpu: 2, pods: 10 }) },
            ...inZone(`m-${zone}`, zone),
          }),
        ),
        demands: aGang(2, { topology, shared: amounts({ cpu: 2 }) }),
      },
      { start: ["large in a for gang/1"], bound: { "gang/0": "m-a", "gang/1": "gpu-r1-0" } },
    ],
  ]);

  it("is planned once", () => {
    const nodes = [free("n1", "a"), free("n2", "b"), free("n3", "b")];
    const snapshot = aSnapshot({ pools, nodes, demands: aGang(4, { topology }) });
    const plan = computeScaling(snapshot);
    expect(plan.start).toHaveLength(2);
    const again = computeScaling(applyPlan(snapshot, plan, "r2"));
    expect([again.start, again.stop, again.updates]).toEqual([[], [], []]);
  });
});

describe("a gang in one zone of several pools", () => {
  const both = [aDemand("d1", { group: "g", topology }), aDemand("d2", { group: "g", topology, pool: "cpu" })];
  const cpu = (zones: readonly string[]) => aPool({ name: "cpu", zones });
  checkPlans([
    [
      "gets its nodes in a zone of both pools",
      { pools: [...pools, cpu(["b", "c"])], demands: both },
      { start: ["large in b for d1", "large in b for d2"] },
    ],
    [
      "gets none in pools without a common zone",
      { pools: [...pools, cpu(["c"])], demands: both },
      {
        start: [],
        waits: ["g TOPOLOGY d1,d2"],
        messages: [
          `1 of 2 nodes that are needed together are available: new nodes of pool cpu are not known to have ${KEY}=a, in ${KEY}=a`,
        ],
      },
    ],
  ]);
});

describe("a gang in one zone of an unscaled pool", () => {
  const demands = [
    aDemand("d1", { group: "g", topology }),
    aDemand("d2", { group: "g", topology, pool: "fixed" }),
    aDemand("d3", { group: "g", topology, pool: "fixed" }),
  ];
  const fixed = (counts: Readonly<Record<string, number>>) => new Map([["fixed", new Map(Object.entries(counts))]]);
  checkPlans([
    [
      "gets its nodes in a zone in which that pool has enough",
      { pools, demands, unscaledZones: fixed({ a: 1, b: 2 }) },
      { start: ["large in b for d1"] },
    ],
    [
      "gets none if no such zone exists",
      { pools, demands, unscaledZones: fixed({ a: 1, c: 2 }) },
      { start: [], waits: ["g TOPOLOGY d1"] },
    ],
  ]);
});

describe("a gang in one rack", () => {
  const rack = { topology: { key: "rack" } };
  const inRack = (name: string, value: string) => ({
    ...aNode(name),
    joined: { name, labels: { rack: value }, taints: [] },
  });
  checkPlans([
    [
      "gets nodes of a pool whose labels state the rack",
      {
        pools: [aPool({ labels: { rack: "r1" } })],
        nodes: [inRack("n1", "r1"), inRack("n2", "r2")],
        demands: aGang(2, rack),
      },
      { start: ["large for gang/1"], bound: { "gang/0": "n1", "gang/1": "gpu-r1-0" } },
    ],
    [
      "gets no node of a pool whose labels do not state it",
      { nodes: [inRack("n1", "r1")], demands: aGang(2, rack) },
      {
        start: [],
        bound: {},
        waits: ["gang TOPOLOGY gang/0,gang/1"],
        messages: ["2 nodes needed: no value of rack is known that all of these nodes can have"],
      },
    ],
    [
      "gets no nodes of pools with different racks",
      {
        pools: [aPool({ labels: { rack: "r1" } }), aPool({ name: "cpu", labels: { rack: "r2" } })],
        demands: [aDemand("d1", { group: "g", ...rack }), aDemand("d2", { group: "g", ...rack, pool: "cpu" })],
      },
      { start: [], waits: ["g TOPOLOGY d1,d2"] },
    ],
  ]);
});
