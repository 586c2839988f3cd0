import { describe, expect, it } from "vitest";
import {
  aDemand,
  aGang,
  aMachine,
  aNode,
  aPool,
  applyPlan,
  aShortage,
  aSnapshot,
  aTermination,
  NOW,
} from "../../test/scaling-snapshots.ts";
import { checkPlans, type Given } from "../../test/plan-rows.ts";
import { computeScaling, type ScalingSnapshot } from "./compute.ts";
import type { Demand } from "./demand.ts";
import type { NodePhase } from "./node.ts";

const named = (gang: string) => (demand: Demand, index: number) => ({ ...demand, name: `${gang}/${index}` });
const nodesIn = (...phases: NodePhase[]) => phases.map((phase) => aNode(phase.toLowerCase(), { phase }));
describe("which nodes count", () => {
  checkPlans([
    [
      "nodes that are Creating, Created or Available are used",
      { nodes: nodesIn("Creating", "Created", "Available"), demands: [aDemand("d1"), aDemand("d2"), aDemand("d3")] },
      { start: [], bound: { d1: "available", d2: "created", d3: "creating" } },
    ],
    [
      "nodes of any other phase are neither used nor stopped",
      {
        nodes: nodesIn("Claimed", "Cleaning", "Terminating", "Terminated"),
        demands: [aDemand("d1")],
        pools: [aPool({ idleMs: 0 })],
      },
      { start: ["large for d1"], stop: [], updates: [] },
    ],
    [
      "a node that must end is neither used nor stopped again",
      { nodes: [aNode("n1", { terminate: aTermination() })], demands: [aDemand("d1")], pools: [aPool({ idleMs: 0 })] },
      { start: ["large for d1"], stop: [], updates: [] },
    ],
    [
      "a node of a pool that is no longer scaled is stopped, but not while it is held",
      { nodes: [aNode("n1", { pool: "old" }), aNode("n2", { pool: "old", phase: "Claimed" })] },
      { stop: ["n1 POOL_REMOVED"] },
    ],
    [
      "demand in an unscaled pool is ignored, with the reason",
      { demands: [aDemand("d1", { pool: "other" })] },
      { start: [], waits: [], ignored: ["d1: pool other is not scaled"] },
    ],
  ]);
});

describe("existing bindings", () => {
  checkPlans([
    [
      "a node that is bound to a waiting demand stays bound, even if another would be ready sooner",
      { nodes: [aNode("n1", { phase: "Creating", boundTo: "d1" }), aNode("n2")], demands: [aDemand("d1")] },
      { bound: { d1: "n1" }, start: [] },
    ],
    [
      "a node that is bound to any other demand becomes free",
      { nodes: [aNode("n1", { boundTo: "gone" })] },
      { bound: {}, updates: ["n1 idle from now"] },
    ],
    [
      "a node that is bound to a demand stays bound while its kind is short",
      {
        nodes: [aNode("n1", { phase: "Creating", boundTo: "d1" })],
        demands: [aDemand("d1")],
        unavailable: [aShortage()],
      },
      { bound: { d1: "n1" }, start: [] },
    ],
    [
      "a node that no longer suits its demand serves another one",
      { nodes: [aNode("n1", { boundTo: "d1" })], demands: [aDemand("d1", { gpus: 1 }), aDemand("d2")] },
      { bound: { d1: "gpu-r1-0", d2: "n1" }, updates: ["n1 d2"] },
    ],
    [
      "of two nodes that are bound to one demand the better one stays, and the other is free",
      {
        nodes: [aNode("n1", { phase: "Creating", boundTo: "d1" }), aNode("n2", { phase: "Created", boundTo: "d1" })],
        demands: [aDemand("d1"), aDemand("d2")],
      },
      { bound: { d1: "n2", d2: "n1" }, start: [], updates: ["n1 d2"] },
    ],
    [
      "an on-demand node stays with a demand that prefers spot, even when spot is available again",
      { nodes: [aNode("n1", { boundTo: "d1" })], demands: [aDemand("d1", { spot: "Preferred" })] },
      { bound: { d1: "n1" }, start: [] },
    ],
  ]);
});

describe("the order", () => {
  checkPlans([
    [
      "demands with a zone come first, then the oldest, then by name",
      {
        nodes: [aNode("n1", { zone: "a" }), aNode("n2", { zone: "a" }), aNode("n3", { zone: "a" })],
        demands: [
          aDemand("d2"),
          aDemand("d1"),
          aDemand("old", { createdAtMs: NOW - 5000 }),
          aDemand("zoned", { zone: "a", createdAtMs: NOW }),
        ],
      },
      { bound: { zoned: "n1", old: "n2", d1: "n3", d2: "gpu-r1-0" } },
    ],
    [
      "spot nodes are used first, then Available, Created and Creating ones, then by name",
      {
        nodes: [
          aNode("d", { phase: "Created" }),
          aNode("e", { phase: "Creating" }),
          aNode("c"),
          aNode("b"),
          aNode("z", { spot: true, phase: "Creating" }),
        ],
        demands: ["1", "2", "3", "4", "5"].map((name) => aDemand(name, { spot: "Preferred" })),
        unavailable: [aShortage({ spot: true, sinceMs: NOW - 60_000 })],
      },
      { bound: { "1": "z", "2": "b", "3": "c", "4": "d", "5": "e" } },
    ],
    [
      "a demand gets the type that it prefers among equally ready nodes",
      {
        nodes: [aNode("n1", { instanceType: "huge" }), aNode("n2"), aNode("n3", { phase: "Creating" })],
        demands: [
          aDemand("d1", { instanceTypes: ["large", "huge"] }),
          aDemand("d2", { instanceTypes: ["large", "huge"] }),
        ],
      },
      { bound: { d1: "n2", d2: "n1" } },
    ],
  ]);
});

describe("the fields that must match", () => {
  const unfit = (demand: Parameters<typeof aDemand>[1], node: Parameters<typeof aNode>[1] = {}): Given => ({
    nodes: [aNode("n1", node)],
    demands: [aDemand("d1", demand)],
  });
  const misses = { bound: { d1: "gpu-r1-0" } };
  const fits = { bound: { d1: "n1" }, start: [] };
  checkPlans([
    ["the instance type", unfit({}, { instanceType: "huge" }), misses],
    ["privateIpOnly, which a demand may request", unfit({ privateIpOnly: true }), misses],
    ["privateIpOnly, which a node may have", unfit({}, { privateIpOnly: true }), misses],
    ["the number of GPUs, when the node has too many", unfit({}, { gpus: 1 }), misses],
    ["the number of GPUs, when the node has too few", unfit({ gpus: 2 }, { gpus: 1 }), misses],
    ["spot, with the policy Always", unfit({ spot: "Always" }), { start: ["large spot for d1"] }],
    ["on-demand, with the policy Never", unfit({}, { spot: true }), misses],
    ["the zone", unfit({ zone: "a" }, { zone: "b" }), { start: ["large in a for d1"] }],
    ["the zone, which a node may not have yet", unfit({ zone: "a" }), { start: ["large in a for d1"] }],
    ["but a demand without a zone may take a node in any", unfit({}, { zone: "b" }), fits],
    ["and the volume does not matter if its size can change", unfit({ volumeGib: 50 }), fits],
    ["the volume if its size is fixed", { ...unfit({ volumeGib: 50 }), fixedSizeVolumes: new Set(["cloud"]) }, misses],
    [
      "the pool's volume if its size is fixed and none is requested",
      { ...unfit({}), fixedSizeVolumes: new Set(["cloud"]) },
      fits,
    ],
    [
      "not a volume of another size, if it is fixed and none is requested",
      { ...unfit({}, { volumeGib: 50 }), fixedSizeVolumes: new Set(["cloud"]) },
      misses,
    ],
  ]);
});

describe("machines that the scaler did not create", () => {
  checkPlans([
    [
      "take demand before any node does, by name",
      {
        nodes: [aNode("n1")],
        machines: [aMachine("m2"), aMachine("m1")],
        demands: [aDemand("d1"), aDemand("d2"), aDemand("d3")],
      },
      { bound: { d1: "m1", d2: "m2", d3: "n1" }, start: [] },
    ],
    ["are never stopped", { machines: [aMachine("m1")], pools: [aPool({ idleMs: 0 })] }, { stop: [], updates: [] }],
    [
      "count for their pool alone",
      { machines: [aMachine("m1", { pool: "cpu" })], demands: [aDemand("d1")] },
      { start: ["large for d1"] },
    ],
    [
      "suit while nothing is known against them, but not for a demand with a zone",
      {
        machines: [
          aMachine("m1"),
          aMachine("m2", { zone: "a" }),
          aMachine("m3", { instanceType: "huge" }),
          aMachine("m4", { spot: false }),
        ],
        demands: [aDemand("zoned", { zone: "a" }), aDemand("d1", { spot: "Always" }), aDemand("d2", { gpus: 1 })],
      },
      { bound: { zoned: "m2", d1: "m1", d2: "m4" } },
    ],
    [
      "do not count towards the maximum of a pool",
      {
        machines: [aMachine("m1"), aMachine("m2")],
        demands: [aDemand("a"), aDemand("b"), aDemand("c")],
        pools: [aPool({ max: 1 })],
      },
      { start: ["large for c"] },
    ],
    [
      "do not replace standby nodes",
      { machines: [aMachine("m1")], pools: [aPool({ standby: [{ instanceType: "large", count: 1, spot: false }] })] },
      { start: ["large for standby"] },
    ],
  ]);
});

describe("new nodes", () => {
  it("have the demand's requests, the pool's volume if it requests none, the pool's image, and the price of the type", () => {
    const [first, second] = computeScaling(
      aSnapshot({
        demands: [
          aDemand("d1", { gpus: 2, zone: "a", privateIpOnly: true, spot: "Always", volumeGib: 50 }),
          aDemand("d2"),
        ],
      }),
    ).start;
    expect(first).toEqual({
      name: "gpu-r1-0",
      boundTo: "d1",
      because: "DEMAND",
      spec: {
        pool: "gpu",
        provider: "cloud",
        instanceType: "large",
        bootImage: "image-1",
        spot: true,
        zone: "a",
        gpus: 2,
        volumeGib: 50,
        privateIpOnly: true,
        terminate: undefined,
        pricePerHourMicros: 61_000,
      },
    });
    expect(second?.spec).toMatchObject({ volumeGib: 20, zone: undefined });
  });

  it.each([
    ["Büro.Nord", "b-ro-nord-r1-0"],
    ["-9_", "9-r1-0"],
    ["...", "n-r1-0"],
    ["x".repeat(80), `${"x".repeat(58)}-r1-0`],
  ])("have names that are labels, even in pool %s", (name, expected) => {
    const { start } = computeScaling(aSnapshot({ pools: [aPool({ name })], demands: [aDemand("d1", { pool: name })] }));
    expect(start.map((step) => step.name)).toEqual([expected]);
  });

  it("never have a name that is in use", () => {
    const { start } = computeScaling(
      aSnapshot({ nodes: [aNode("gpu-r1-0", { phase: "Terminated" })], demands: [aDemand("d1")] }),
    );
    expect(start.map(({ name }) => name)).toEqual(["gpu-r1-1"]);
  });

  checkPlans([
    [
      "are of the next type when the preferred one is short",
      { demands: [aDemand("d1", { instanceTypes: ["large", "huge"] })], unavailable: [aShortage()] },
      { start: ["huge for d1"] },
    ],
    [
      "are in the pool's next zone when the type is short in the first",
      { demands: [aDemand("d1")], pools: [aPool({ zones: ["a", "b"] })], unavailable: [aShortage({ zone: "a" })] },
      { start: ["large in b for d1"] },
    ],
    [
      "are not created when all suitable types are short, and the wait names the time of the next attempt",
      {
        demands: [aDemand("d1", { instanceTypes: ["large", "huge"] })],
        unavailable: [aShortage(), aShortage({ instanceType: "huge" })],
      },
      {
        start: [],
        bound: {},
        waits: ["d1 UNAVAILABLE d1"],
        messages: ["1 node needed: there is no large, huge on demand (full); requested again in 9m50s"],
      },
    ],
    [
      "are created in spite of an expired shortage",
      { demands: [aDemand("d1")], unavailable: [aShortage({ untilMs: NOW })] },
      { start: ["large for d1"] },
    ],
    [
      "are created in spite of a shortage in another zone",
      { demands: [aDemand("d1", { zone: "b" })], unavailable: [aShortage({ zone: "a" })] },
      { start: ["large in b for d1"] },
    ],
    [
      "are created in spite of another provider's shortage",
      { demands: [aDemand("d1")], unavailable: [aShortage({ provider: "other" })] },
      { start: ["large for d1"] },
    ],
    [
      "are not created in a zone outside the pool",
      { demands: [aDemand("d1", { zone: "c" })], pools: [aPool({ zones: ["a"] })] },
      { start: [], messages: ["1 node needed: pool gpu has no zone c"] },
    ],
    [
      "are not created before the boot image is known, but existing nodes are used",
      { nodes: [aNode("n1")], demands: [aDemand("d1"), aDemand("d2")], bootImages: new Map() },
      { start: [], bound: { d1: "n1" }, messages: ["1 node needed: the boot image of pool gpu is not known"] },
    ],
    [
      "are not created beyond the pool's maximum, which counts every record that is not Terminated",
      {
        nodes: nodesIn("Claimed", "Cleaning", "Terminating", "Terminated"),
        demands: [aDemand("d1"), aDemand("d2")],
        pools: [aPool({ max: 4 })],
      },
      {
        start: ["large for d1"],
        waits: ["d1 BOOTING d1", "d2 POOL_MAX d2"],
        messages: [
          "waiting for 1 node of type large, booting for 0 s",
          "1 node needed: pool gpu has 3 nodes of 4 at most, 1 of them to end, 1 more about to boot for other work",
        ],
      },
    ],
    [
      "that are still booting are reported with the time since their creation",
      {
        nodes: [aNode("n1", { phase: "Created", createdAtMs: NOW - 40_500, boundTo: "d1" })],
        demands: [aDemand("d1")],
      },
      { waits: ["d1 BOOTING d1"], messages: ["waiting for 1 node of type large, booting for 40 s"] },
    ],
  ]);
});

describe("spot", () => {
  const preferred = [aDemand("d1", { spot: "Preferred", instanceTypes: ["large", "huge"] })];
  const short = (sinceMs: number) => [
    aShortage({ spot: true, sinceMs: NOW - 300_000 }),
    aShortage({ spot: true, sinceMs, instanceType: "huge" }),
  ];
  const shortOnDemand = [aShortage({ message: "quota" }), aShortage({ instanceType: "huge" })];
  checkPlans([
    ["is requested first if it is preferred", { demands: preferred }, { start: ["large spot for d1"] }],
    [
      "is requested in every type before on-demand",
      { demands: preferred, unavailable: [aShortage({ spot: true, sinceMs: NOW - 300_000 })] },
      { start: ["huge spot for d1"] },
    ],
    [
      "delays on-demand until it has been short for the pause",
      { demands: preferred, unavailable: short(NOW - 59_000) },
      {
        start: [],
        bound: {},
        messages: ["1 node needed: there is no large, huge as spot (full); on-demand is requested in 1 s"],
      },
    ],
    [
      "is replaced by a new on-demand node after it has been short for the pause",
      { demands: preferred, unavailable: short(NOW - 60_000) },
      { start: ["large for d1"] },
    ],
    [
      "does not delay the use of a free on-demand node",
      { nodes: [aNode("n1")], demands: preferred, unavailable: short(NOW - 59_000) },
      { start: [], bound: { d1: "n1" } },
    ],
    [
      "is reported with its reason beside that of on-demand if neither is available",
      { demands: preferred, unavailable: [...short(NOW - 60_000), ...shortOnDemand] },
      {
        start: [],
        messages: [
          "1 node needed: there is no large, huge as spot (full), no large on demand (quota), no huge on demand (full); requested again in 9m50s",
        ],
      },
    ],
    [
      "is requested again when the mark has expired, for work without a free on-demand node",
      { nodes: [aNode("n1")], demands: [...preferred, aDemand("d2", { spot: "Preferred" })] },
      { start: ["large spot for d2"], bound: { d1: "n1" } },
    ],
    [
      "is not booted beside an on-demand node that has been idle for long and would end",
      { nodes: [aNode("n1", { idleSinceMs: NOW - 400_000 })], demands: preferred },
      { start: [], stop: [], bound: { d1: "n1" } },
    ],
    [
      "comes first among free nodes, even if an on-demand one is ready sooner",
      { nodes: [aNode("n1"), aNode("n2", { spot: true, phase: "Creating" })], demands: preferred },
      { start: [], bound: { d1: "n2" } },
    ],
    [
      "is never replaced with the policy Always",
      { nodes: [aNode("n1")], demands: [aDemand("d1", { spot: "Always" })], unavailable: short(NOW - 300_000) },
      { start: [], waits: ["d1 UNAVAILABLE d1"] },
    ],
    [
      "does not prevent new on-demand nodes during its shortage",
      { demands: [aDemand("d1")], unavailable: short(NOW) },
      { start: ["large for d1"] },
    ],
  ]);
});

describe("a node with pods that the ledger still grants", () => {
  const shared = (name: string, differences: Parameters<typeof aNode>[1] = {}) => {
    return { ...aNode(name, differences), sharedWith: "pod default/web" };
  };
  const forPods = aDemand("pods/default/a", { needsEmptyNode: true });
  checkPlans([
    [
      "completes a gang as large as the maximum of its pool, and the wait names the pods",
      { nodes: [shared("n1")], demands: aGang(3), pools: [aPool({ max: 3 })] },
      {
        start: ["large for gang/1", "large for gang/2"],
        bound: { "gang/0": "n1" },
        messages: [
          "waiting for 2 nodes of type large, booting for 0 s; 1 node has pods that the ledger does not count: n1 has pod default/web",
        ],
      },
    ],
    [
      "stays bound to a request that waits in the ledger",
      { nodes: [aNode("n0"), shared("n1", { boundTo: "d1" })], demands: [aDemand("d1")] },
      { start: [], bound: { d1: "n1" } },
    ],
    [
      "is used after an empty one",
      { nodes: [shared("n1"), aNode("n2")], demands: [aDemand("d1")] },
      { bound: { d1: "n2" } },
    ],
    [
      "does not serve pods that found no room on it, and is named if the pool is full",
      { nodes: [shared("n1", { boundTo: forPods.name })], demands: [forPods], pools: [aPool({ max: 1 })] },
      {
        start: [],
        stop: [],
        bound: {},
        messages: [
          "1 node needed: pool gpu has 1 nodes of 1 at most, 1 of them with pods that the ledger does not count: n1 has pod default/web",
        ],
      },
    ],
    [
      "is no surplus, and does not begin to be idle",
      { nodes: [shared("n1", { idleSinceMs: NOW - 400_000 })], pools: [aPool({ idleMs: 0 })] },
      { stop: [], updates: ["n1 idle"] },
    ],
    [
      "is not ended to make room",
      { nodes: [shared("n1", { spot: true })], demands: [aDemand("d1")], pools: [aPool({ max: 1 })] },
      { start: [], stop: [] },
    ],
    ["is kept in a pool that is no longer scaled", { nodes: [shared("n1", { pool: "gone" })] }, { stop: [] }],
    [
      "may be one that the scaler did not create",
      { machines: [{ ...aMachine("m1"), sharedWith: "pod default/web" }], demands: [forPods, aDemand("d1")] },
      { start: ["large for pods/default/a"], bound: { d1: "m1" } },
    ],
  ]);
});

describe("a gang that lacks nodes while others boot", () => {
  const older = aGang(3, { group: "older", createdAtMs: 0 }).map((demand, index) => ({
    ...demand,
    name: `older/${index}`,
  }));
  const pools = [aPool({ max: 4 })];
  checkPlans([
    [
      "is reported if the boots begin in the same round",
      { demands: [...older, ...aGang(3)], pools },
      {
        messages: [
          "waiting for 3 nodes of type large, booting for 0 s",
          "1 of 3 nodes that are needed together are available: pool gpu has 0 nodes of 4 at most, 3 more about to boot for other work",
        ],
      },
    ],
    [
      "is reported while the nodes boot",
      {
        nodes: older.map(({ name }, index) => aNode(`n${index}`, { phase: "Creating", boundTo: name })),
        demands: [...older, ...aGang(3)],
        pools,
      },
      {
        messages: [
          "waiting for 3 nodes of type large, booting for 1m00s",
          "1 of 3 nodes that are needed together are available: pool gpu has 3 nodes of 4 at most, 3 of them booting for other work",
        ],
      },
    ],
  ]);
});

describe("standby", () => {
  const standby = (count: number, differences: object = {}) => ({
    instanceType: "large",
    count,
    spot: false,
    ...differences,
  });
  checkPlans([
    [
      "consists of new nodes",
      { pools: [aPool({ standby: [standby(2)] })] },
      { start: ["large for standby", "large for standby"] },
    ],
    ["of 0 nodes needs none", { pools: [aPool({ standby: [standby(0)] })] }, { start: [] }],
    [
      "entries for the same kind add up",
      { pools: [aPool({ standby: [standby(1), standby(1, { spot: true }), standby(1)] })] },
      { start: ["large for standby", "large for standby", "large spot for standby"] },
    ],
    [
      "is met by unbound nodes of the type, spot and volume, whatever their GPUs, zone and addresses",
      {
        nodes: [
          aNode("n1", { phase: "Creating", gpus: 1, zone: "a", privateIpOnly: true }),
          aNode("n2", { spot: true }),
          aNode("n3", { instanceType: "huge" }),
          aNode("n4", { volumeGib: 50 }),
          aNode("n5", { boundTo: "d1" }),
        ],
        demands: [aDemand("d1")],
        pools: [aPool({ standby: [standby(2)] })],
      },
      { start: ["large for standby"] },
    ],
    [
      "is not created during a shortage",
      { pools: [aPool({ standby: [standby(1), standby(1, { instanceType: "huge" })] })], unavailable: [aShortage()] },
      { start: ["huge for standby"] },
    ],
    [
      "is not created beyond the maximum of the pool",
      { pools: [aPool({ max: 1, standby: [standby(3)] })] },
      { start: ["large for standby"] },
    ],
    [
      "is filled in the order of its entries if the maximum excludes some",
      { pools: [aPool({ max: 1, standby: [standby(1, { instanceType: "huge" }), standby(1)] })] },
      { start: ["huge for standby"] },
    ],
    [
      "comes after demand if the maximum excludes both",
      { demands: [aDemand("d1")], pools: [aPool({ max: 1, standby: [standby(1)] })] },
      { start: ["large for d1"] },
    ],
    [
      "serves demand with its nodes, and is refilled",
      { nodes: [aNode("n1")], demands: [aDemand("d1")], pools: [aPool({ standby: [standby(1)] })] },
      { bound: { d1: "n1" }, start: ["large for standby"] },
    ],
  ]);
});

it("creates standby nodes with the pool's volume and addresses, in no certain zone, and with as many GPUs as their type has", () => {
  const instanceTypes = [{ name: "large", cpuMilli: undefined, memoryBytes: undefined, gpus: 4 }];
  const pool = aPool({
    instanceTypes,
    standby: [{ instanceType: "large", count: 1, spot: true }],
    privateIpOnly: true,
  });
  expect(computeScaling(aSnapshot({ pools: [pool] })).start).toEqual([
    {
      name: "gpu-r1-0",
      boundTo: undefined,
      because: "STANDBY",
      spec: {
        pool: "gpu",
        provider: "cloud",
        instanceType: "large",
        bootImage: "image-1",
        spot: true,
        zone: undefined,
        gpus: 4,
        volumeGib: 20,
        privateIpOnly: true,
        terminate: undefined,
      },
    },
  ]);
});

describe("surplus", () => {
  const idle = (name: string, idleMs: number, createdAtMs = NOW - 1_000_000) =>
    aNode(name, { idleSinceMs: NOW - idleMs, createdAtMs });
  const standby = [{ instanceType: "large", count: 1, spot: false }];
  checkPlans([
    [
      "is stopped immediately with an idle time of 0",
      { nodes: [aNode("n1")], pools: [aPool({ idleMs: 0 })] },
      { stop: ["n1 IDLE"] },
    ],
    [
      "is kept for the idle time, from the end of its binding",
      { nodes: [idle("n1", 299_999), idle("n2", 300_000)] },
      { stop: ["n2 IDLE"] },
    ],
    [
      "is stopped even while it boots",
      { nodes: [aNode("n1", { phase: "Creating", idleSinceMs: NOW - 300_000 })] },
      { stop: ["n1 IDLE"] },
    ],
    [
      "is stopped with the newest first",
      { nodes: [idle("old", 400_000, NOW - 3), idle("new", 400_000, NOW - 1), idle("middle", 400_000, NOW - 2)] },
      { stop: ["new IDLE", "middle IDLE", "old IDLE"] },
    ],
    [
      "excludes standby, and the newest nodes end first",
      { nodes: [idle("old", 400_000, NOW - 2), idle("new", 400_000, NOW - 1)], pools: [aPool({ standby })] },
      { stop: ["new IDLE"], start: [] },
    ],
    [
      "does not end a standby node because another one was released just now",
      {
        nodes: [idle("old", 400_000, NOW - 2), aNode("returned", { createdAtMs: NOW - 3 })],
        pools: [aPool({ standby })],
      },
      { stop: [], updates: ["returned idle from now"] },
    ],
    [
      "excludes nodes of demands",
      { nodes: [aNode("n1", { idleSinceMs: NOW - 400_000 })], demands: [aDemand("d1")] },
      { stop: [], bound: { d1: "n1" }, updates: ["n1 d1"] },
    ],
  ]);

  it("reports how long it has been idle", () => {
    const { stop } = computeScaling(aSnapshot({ nodes: [idle("n1", 312_000)] }));
    expect(stop[0]?.because).toEqual({ code: "IDLE", message: "nothing has needed it for 5m12s" });
  });
});

describe("a gang", () => {
  checkPlans([
    [
      "gets all of its nodes",
      { nodes: [aNode("n1")], demands: aGang(3) },
      { bound: { "gang/0": "n1", "gang/1": "gpu-r1-0", "gang/2": "gpu-r1-1" } },
    ],
    [
      "that can only be booted in part boots nothing and states the reason",
      { demands: aGang(3), pools: [aPool({ max: 2 })] },
      {
        start: [],
        bound: {},
        waits: ["gang GANG_INCOMPLETE gang/0,gang/1,gang/2"],
        messages: ["2 of 3 nodes that are needed together are available: pool gpu has 0 nodes of 2 at most"],
      },
    ],
    [
      "that is short of one type boots nothing of the others",
      {
        demands: [...aGang(1), aDemand("gang/x", { group: "gang", instanceTypes: ["huge"] })],
        unavailable: [aShortage({ instanceType: "huge" })],
      },
      {
        start: [],
        waits: ["gang UNAVAILABLE gang/0,gang/x"],
        messages: [
          "1 of 2 nodes that are needed together are available: there is no huge on demand (full); requested again in 9m50s",
        ],
      },
    ],
    [
      "that is short of one type and has no room for another is reported as incomplete",
      {
        demands: [...aGang(2), aDemand("gang/x", { group: "gang", instanceTypes: ["huge"] })],
        pools: [aPool({ max: 1 })],
        unavailable: [aShortage({ instanceType: "huge" })],
      },
      { start: [], waits: ["gang GANG_INCOMPLETE gang/0,gang/1,gang/x"] },
    ],
    [
      "that cannot be completed releases its nodes, and others use them",
      {
        nodes: [aNode("n1", { boundTo: "gang/0" }), aNode("n2", { phase: "Claimed" })],
        demands: [...aGang(2), aDemand("younger", { createdAtMs: NOW })],
        pools: [aPool({ max: 2 })],
      },
      { start: [], bound: { younger: "n1" }, updates: ["n1 younger"] },
    ],
    [
      "that cannot be completed releases its nodes, also to groups that are served before it",
      {
        nodes: [aNode("n1", { boundTo: "gang/0" }), aNode("n2", { phase: "Claimed" })],
        demands: [...aGang(2), aDemand("older", { createdAtMs: 0 })],
        pools: [aPool({ max: 2 })],
      },
      { start: [], bound: { older: "n1" } },
    ],
    [
      "leaves smaller demands the nodes that it cannot use",
      { demands: [...aGang(3), aDemand("younger", { createdAtMs: NOW })], pools: [aPool({ max: 2 })] },
      { start: ["large for younger"] },
    ],
    [
      "spans pools, and gets no node of one if the other cannot serve it",
      {
        pools: [aPool(), aPool({ name: "cpu", max: 0 })],
        demands: [aDemand("a", { group: "gang" }), aDemand("b", { group: "gang", pool: "cpu" })],
      },
      { start: [], waits: ["gang GANG_INCOMPLETE a,b"] },
    ],
    [
      "that is larger than the maximum of its pool boots nothing, and the wait names the maximum",
      { demands: aGang(5), pools: [aPool({ max: 4 })] },
      {
        start: [],
        messages: ["4 of 5 nodes that are needed together are available: pool gpu has 0 nodes of 4 at most"],
      },
    ],
    [
      "that is younger gets nothing while the pool has no room for both, though each would fit alone",
      {
        demands: [...aGang(3), ...aGang(3, { group: "older", createdAtMs: 0 }).map(named("older"))],
        pools: [aPool({ max: 5 })],
      },
      { start: Array.from({ length: 3 }, (_, index) => `large for older/${index}`), bound: { "older/0": "gpu-r1-0" } },
    ],
    [
      "that is half booted releases its nodes for an older half booted one, if the pool's maximum is below their sum",
      {
        demands: [...aGang(3), ...aGang(3, { group: "older", createdAtMs: 0 }).map(named("older"))],
        nodes: [
          aNode("n1", { boundTo: "gang/0" }),
          aNode("n2", { boundTo: "gang/1" }),
          aNode("n3", { boundTo: "older/0" }),
          aNode("n4", { boundTo: "older/1" }),
        ],
        pools: [aPool({ max: 4 })],
      },
      {
        start: [],
        stop: [],
        bound: { "older/0": "n1", "older/1": "n2", "older/2": "n3" },
        updates: ["n1 older/0", "n2 older/1", "n3 older/2", "n4 idle from now"],
      },
    ],
    [
      "does not wait for nodes of an unscaled pool",
      { demands: [aDemand("a", { group: "gang" }), aDemand("b", { group: "gang", pool: "other" })] },
      { start: ["large for a"], ignored: ["b: pool other is not scaled"] },
    ],
  ]);
});

describe("the boots of a round", () => {
  const limits = (bootsPerRound: number) => ({ limits: { bootsPerRound, spotRequestPauseMs: 60_000 } });
  const many = (count: number, kind: string, differences = {}) =>
    Array.from({ length: count }, (_, index) => aDemand(`${kind}${index}`, { instanceTypes: [kind], ...differences }));

  it("are at most the limit, and the rest waits for its turn", () => {
    const { start, waits } = computeScaling(aSnapshot({ demands: many(12, "large") }));
    expect(start).toHaveLength(10);
    expect(waits.filter(({ code }) => code === "RATE_LIMITED")).toHaveLength(2);
    expect(waits.at(-1)?.message).toBe("0 of 1 node begin to boot now: 10 in a round at most, for all waiting demand");
  });

  it("are divided between the kinds of nodes, so that one that never boots does not starve the others", () => {
    const demands = [...many(50, "large", { createdAtMs: 0 }), ...many(50, "huge")];
    const { start } = computeScaling(aSnapshot({ demands }));
    expect(start.filter(({ spec }) => spec.instanceType === "huge")).toHaveLength(5);
  });

  it("reach every kind in the course of rounds, even with more kinds than boots", () => {
    const demands = Array.from({ length: 25 }, (_, gpus) => aDemand(`d${gpus}`, { gpus }));
    const served = new Set<string>();
    for (let round = 0; round < 60; round += 1) {
      for (const { boundTo } of computeScaling(aSnapshot({ demands, seed: `round${round}` })).start)
        served.add(boundTo ?? "");
    }
    expect(served.size).toBe(25);
  });

  it("do not split a gang that fits, which is served when its kind begins", () => {
    const demands = [...aGang(10), ...many(30, "huge", { createdAtMs: 0 })];
    let turns = 0;
    for (let round = 0; round < 20; round += 1) {
      const { start } = computeScaling(aSnapshot({ demands, seed: `round${round}` }));
      const booted = start.filter(({ boundTo }) => boundTo?.startsWith("gang")).length;
      expect([0, 10]).toContain(booted);
      if (booted > 0) turns += 1;
    }
    expect(turns).toBeGreaterThan(0);
  });

  it("belong to one gang if it is larger than a round, which loses nothing until it is complete", () => {
    let world: ScalingSnapshot = aSnapshot({
      demands: [...aGang(25), ...many(8, "huge")],
      pools: [aPool({ idleMs: 0, max: 33 })],
    });
    let bound = 0;
    for (let round = 0; round < 40; round += 1) {
      const plan = computeScaling({ ...world, seed: `round${round}` });
      const forGang = plan.start.filter(({ boundTo }) => boundTo?.startsWith("gang")).length;
      const bare = 25 - bound;
      if (forGang > 0) expect(forGang).toBe(Math.min(10, bare));
      if (forGang > 0 && bare > 10) expect(plan.start).toHaveLength(10);
      bound += forGang;
      expect(plan.stop).toEqual([]);
      expect([...plan.bindings.keys()].filter((name) => name.startsWith("gang"))).toHaveLength(bound);
      world = applyPlan(world, plan, "");
    }
    expect(bound).toBe(25);
    expect(world.nodes).toHaveLength(33);
  });

  it("keep the free nodes that deferred demand was assigned", () => {
    const nodes = [aNode("n1"), aNode("n2")];
    const plan = computeScaling(
      aSnapshot({ nodes, demands: [...aGang(4), aDemand("d", { createdAtMs: 0, gpus: 1 })], ...limits(1) }),
    );
    expect(plan.bindings.get("gang/0")).toBe("n1");
    expect(plan.bindings.get("gang/1")).toBe("n2");
  });
});

describe("the facts of a pool", () => {
  it("include its booting nodes with their start, its standby, and the cause of a delay", () => {
    const standby = [{ instanceType: "large", count: 1, spot: false }];
    const { poolScaling } = computeScaling(
      aSnapshot({
        pools: [aPool({ name: "idle", max: 1 }), aPool({ max: 4, standby: [...standby, ...standby] })],
        nodes: [
          aNode("n1", { phase: "Created", boundTo: "d1", createdAtMs: NOW - 5 }),
          aNode("n2", { phase: "Creating", boundTo: "d2", createdAtMs: NOW - 9 }),
          aNode("n3", { boundTo: "d3" }),
        ],
        demands: ["d1", "d2", "d3", "d4", "d5"].map((name) => aDemand(name)),
      }),
    );
    expect(poolScaling).toEqual([
      {
        pool: "gpu",
        max: 4,
        standby: 2,
        booting: [{ instanceType: "large", spot: false, count: 3, sinceMs: NOW - 9 }],
        blocked: {
          code: "POOL_MAX",
          message:
            "d5: 1 node needed: pool gpu has 3 nodes of 4 at most, 2 of them booting for other work, 1 more about to boot for other work",
        },
      },
      { pool: "idle", max: 1, standby: 0, booting: [], blocked: undefined },
    ]);
  });

  it("include the shortage of its standby when every demand is met", () => {
    const pools = [aPool({ standby: [{ instanceType: "large", count: 2, spot: true }] })];
    const { poolScaling } = computeScaling(aSnapshot({ pools, unavailable: [aShortage({ spot: true })] }));
    expect(poolScaling[0]?.blocked).toEqual({
      code: "UNAVAILABLE",
      message: "2 nodes on standby are missing: there is no large as spot (full); requested again in 9m50s",
    });
  });
});

describe("the work of a round", () => {
  function countReads(given: Given): number {
    let reads = 0;
    const counted = <Value extends object>(value: Value): Value =>
      new Proxy(value, {
        get: (target, key) => {
          reads += 1;
          return Reflect.get(target, key) as unknown;
        },
      });
    computeScaling(
      aSnapshot({ ...given, demands: given?.demands?.map(counted) ?? [], nodes: given?.nodes?.map(counted) ?? [] }),
    );
    return reads;
  }

  /** Half of the demands find a node, each in a separate zone; the nodes for the others are in the wrong zone. */
  function world(size: number): Given {
    const zoneOf = (index: number) => `zone-${Math.floor(index / 10)}`;
    return {
      pools: [aPool({ max: size * 2 })],
      demands: Array.from({ length: size }, (_, index) =>
        aDemand(`d${index}`, { zone: zoneOf(index), gpus: index % 2, group: `gang-${Math.floor(index / 4)}` }),
      ),
      nodes: Array.from({ length: size }, (_, index) => aNode(`n${index}`, { zone: zoneOf(index) })),
    };
  }

  it("grows with nodes and demands as sorting them does, and not with their product", () => {
    const [few, many] = [countReads(world(500)), countReads(world(4000))];
    expect(few).toBeGreaterThan(500);
    expect(many).toBeLessThan(few * 8 * 1.5);
  });

  it("is bounded if each gang that releases its nodes lets an older one take the nodes of the next", () => {
    const types = (index: number) => ({ kept: [`kept-${index}`], free: [`free-${index}`] });
    const size = 200;
    const demands = Array.from({ length: size }, (_, index) => [
      aDemand(`older${index}/a`, { group: `older${index}`, createdAtMs: 0, instanceTypes: types(index).kept }),
      aDemand(`older${index}/b`, { group: `older${index}`, createdAtMs: 0, instanceTypes: types(index + 1).free }),
      aDemand(`holder${index}/a`, { group: `holder${index}`, instanceTypes: types(index).kept }),
      aDemand(`holder${index}/b`, { group: `holder${index}`, instanceTypes: types(index).free }),
    ]).flat();
    const nodes = Array.from({ length: size }, (_, index) => [
      aNode(`kept${index}`, { instanceType: `kept-${index}`, boundTo: `holder${index}/a` }),
      ...(index === 0 ? [] : [aNode(`free${index}`, { instanceType: `free-${index}` })]),
    ]).flat();
    const given = { demands, nodes, pools: [aPool({ max: 0 })] };
    const { bindings } = computeScaling(aSnapshot(given));
    const bound = [...bindings.keys()].map((name) => name.replace(/\d+/, "")).toSorted();
    expect(bound).toEqual([...Array<string>(size - 1).fill("older/a"), ...Array<string>(size - 1).fill("older/b")]);
    expect(countReads(given)).toBeLessThan(25 * countReads({ ...given, nodes: [] }));
  });
});
