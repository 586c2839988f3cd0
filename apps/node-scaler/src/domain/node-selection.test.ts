import type { NodeSelection } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { checkPlans } from "../../test/plan-rows.ts";
import { aDemand, aMachine, aNode, aPool, aSnapshot, applyPlan, aShortage, NOW } from "../../test/scaling-snapshots.ts";
import { getDemandClass } from "./acceptance.ts";
import { computeScaling } from "./compute.ts";
import type { JoinedNode } from "./fit.ts";

const ssd: NodeSelection = {
  terms: [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }],
  tolerations: [],
};
const tolerant: NodeSelection = { terms: [], tolerations: [{ key: "gpu", operator: "Exists" }] };
const gpu = { key: "gpu", effect: "NoSchedule" };
const joined = (name: string, labels: JoinedNode["labels"] = {}, taints: JoinedNode["taints"] = []) => ({
  joined: { name, labels, taints },
});
const hdd = { ...aNode("n1"), ...joined("k1", { disk: "hdd" }) };
const amounts = (record: Readonly<Record<string, number>>) => new Map(Object.entries(record));
const room = { allocatable: amounts({ cpu: 8, pods: 10 }), free: amounts({ cpu: 4, pods: 10 }) };
const part = { shared: amounts({ cpu: 2 }), instanceTypes: ["large"] };
const gang = { group: "gang" };
const mismatch = {
  pool: "gpu",
  instanceType: "large",
  demandClass: getDemandClass(aDemand("x", { selection: ssd })),
};

describe("a demand with a selection", () => {
  checkPlans([
    [
      "does not count a free node that it does not accept",
      { nodes: [hdd], demands: [aDemand("a", { selection: ssd })] },
      { start: ["large for a"], bound: { a: "gpu-r1-0" } },
    ],
    [
      "takes a free node that it accepts",
      {
        nodes: [hdd, { ...aNode("n2"), ...joined("k2", { disk: "ssd" }) }],
        demands: [aDemand("a", { selection: ssd })],
      },
      { start: [], bound: { a: "n2" } },
    ],
    [
      "takes a machine that the scaler did not create only if it accepts the machine",
      {
        machines: [aMachine("m1", joined("m1")), aMachine("m2", joined("m2", { disk: "ssd" }))],
        demands: [aDemand("a", { selection: ssd }), aDemand("b", { selection: ssd })],
      },
      { start: ["large for b"], bound: { a: "m2", b: "gpu-r1-0" } },
    ],
    [
      "does not stay bound to a node that it does not accept",
      {
        nodes: [{ ...aNode("n1", { boundTo: "a" }), ...joined("k1", { disk: "hdd" }) }],
        demands: [aDemand("a", { selection: ssd })],
      },
      { start: ["large for a"], updates: ["n1 idle from now"] },
    ],
    [
      "waits for a node that boots, whose labels are not known yet",
      { nodes: [aNode("n1", { phase: "Created" })], demands: [aDemand("a", { selection: ssd })] },
      { start: [], bound: { a: "n1" } },
    ],
    [
      "does not wait for a node that boots with another label",
      {
        pools: [aPool({ labels: { disk: "hdd" } })],
        nodes: [aNode("n1", { phase: "Created" })],
        demands: [aDemand("a", { selection: ssd })],
      },
      { start: [], bound: {}, waits: ["a NODE_SELECTION a"] },
    ],
    [
      "takes a tainted machine that it tolerates, which other demands do not",
      {
        machines: [aMachine("m1", joined("m1", {}, [gpu]))],
        demands: [aDemand("a"), aDemand("b", { selection: tolerant })],
      },
      { start: ["large for a"], bound: { a: "gpu-r1-0", b: "m1" } },
    ],
    [
      "gets no further node of a type that it turned out not to accept",
      {
        demands: [aDemand("a", { selection: ssd })],
        mismatches: [{ ...mismatch, node: "n1", untilMs: NOW + 60_000 }],
      },
      {
        start: [],
        messages: [
          "1 node needed: n1, created for the same selection, does not match disk=ssd; requested again in 1m00s",
        ],
      },
    ],
    [
      "gets a node of another type",
      {
        demands: [aDemand("a", { selection: ssd, instanceTypes: ["large", "huge"] })],
        mismatches: [{ ...mismatch, node: "n1", untilMs: NOW + 60_000 }],
      },
      { start: ["huge for a"] },
    ],
    [
      "ends an idle node that it does not accept when the pool is full",
      {
        pools: [aPool({ max: 1 })],
        nodes: [{ ...aNode("n1", { idleSinceMs: NOW }), ...joined("k1", { disk: "hdd" }) }],
        demands: [aDemand("a", { selection: ssd })],
      },
      { stop: ["n1 IDLE"] },
    ],
  ]);
});

describe("a demand that new nodes of its pool cannot meet", () => {
  const tainted = aPool({ taints: [{ ...gpu, value: "present" }] });
  const withoutToleration = "1 node needed: pool gpu declares the taint gpu=present:NoSchedule, which is not tolerated";
  const waits = ["a NODE_SELECTION a"];
  const none = { start: [], bound: {}, waits };
  checkPlans([
    [
      "waits and names the taint that it does not tolerate",
      { pools: [tainted], demands: [aDemand("a")] },
      { ...none, messages: [withoutToleration] },
    ],
    [
      "waits and names the taint, although it tolerates another value of it",
      {
        pools: [tainted],
        demands: [aDemand("a", { selection: { terms: [], tolerations: [{ key: "gpu", value: "absent" }] } })],
      },
      { ...none, messages: [withoutToleration] },
    ],
    [
      "waits and names the label with both values",
      { pools: [aPool({ labels: { disk: "hdd" } })], demands: [aDemand("a", { selection: ssd })] },
      { ...none, messages: ["1 node needed: pool gpu declares the label disk=hdd, which does not match disk=ssd"] },
    ],
    [
      "keeps its gang from a free node",
      {
        pools: [aPool({ labels: { disk: "hdd" } })],
        nodes: [{ ...aNode("n1"), ...joined("k1", { disk: "hdd" }) }],
        demands: [aDemand("a", { ...gang, selection: ssd }), aDemand("b", gang)],
      },
      {
        start: [],
        bound: {},
        waits: ["gang NODE_SELECTION a,b"],
        messages: [
          "1 of 2 nodes that are needed together are available: pool gpu declares the label disk=hdd, which does not match disk=ssd",
        ],
      },
    ],
    [
      "leaves free nodes to others",
      {
        pools: [tainted],
        nodes: [{ ...aNode("n1"), ...joined("k1", {}, [{ ...gpu, value: "present" }]) }],
        demands: [aDemand("a"), aDemand("b", { selection: tolerant })],
      },
      { start: [], bound: { b: "n1" }, waits },
    ],
    [
      "takes a node that it still accepts",
      { pools: [tainted], machines: [aMachine("m1", joined("m1"))], demands: [aDemand("a")] },
      { start: [], bound: { a: "m1" }, waits: [] },
    ],
    [
      "waits for a name that no new node has",
      {
        demands: [
          aDemand("a", {
            selection: {
              terms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] }],
              tolerations: [],
            },
          }),
        ],
      },
      { ...none, messages: ["1 node needed: new nodes of pool gpu do not match metadata.name=n"] },
    ],
  ]);
});

describe("a demand that selects zones", () => {
  const inZones = (operator: string, ...values: string[]): NodeSelection => ({
    terms: [{ matchExpressions: [{ key: "topology.kubernetes.io/zone", operator, values }] }],
    tolerations: [],
  });
  const pools = [aPool({ zones: ["a", "b", "c"] })];
  const full = [aShortage({ zone: "b" })];
  checkPlans([
    [
      "gets a node in the only zone that it accepts",
      { pools, demands: [aDemand("d", { selection: inZones("In", "b") })] },
      { start: ["large in b for d"] },
    ],
    [
      "gets a node in the first of its zones that is not short",
      { pools, unavailable: full, demands: [aDemand("d", { selection: inZones("NotIn", "a") })] },
      { start: ["large in c for d"] },
    ],
    [
      "gets a node in the zone that it names, if the pool names none",
      { demands: [aDemand("d", { selection: inZones("In", "z") })] },
      { start: ["large in z for d"] },
    ],
    [
      "gets a node in any zone of a pool without zones, if it only excludes some",
      { demands: [aDemand("d", { selection: inZones("NotIn", "a") })] },
      { start: ["large for d"] },
    ],
    [
      "gets none in a pool without its zone",
      { pools, demands: [aDemand("d", { selection: inZones("In", "z") })] },
      { start: [], waits: ["d NODE_SELECTION d"] },
    ],
    [
      "does not wait for a node that boots in another zone",
      {
        pools,
        nodes: [aNode("n1", { phase: "Created", zone: "a" }), aNode("n2", { phase: "Created", zone: "b" })],
        demands: [aDemand("d", { selection: inZones("In", "b") }), aDemand("e", { selection: inZones("In", "c") })],
      },
      { start: ["large in c for e"], bound: { d: "n2", e: "gpu-r1-0" } },
    ],
  ]);
});

describe("needs of parts with a selection", () => {
  checkPlans([
    [
      "use only nodes that they accept",
      {
        parts: [
          aMachine("m1", { room: { ...room, free: amounts({ cpu: 2, pods: 10 }) }, ...joined("m1") }),
          aMachine("m2", { room, ...joined("m2", { disk: "ssd" }) }),
        ],
        demands: [aDemand("a", { ...part, selection: ssd, createdAtMs: 1 }), aDemand("b", { ...part, createdAtMs: 2 })],
      },
      { start: [], bound: { a: "m2", b: "m1" } },
    ],
    [
      "get a new node while others have room on one that they do not accept",
      {
        parts: [aMachine("m1", { room, ...joined("m1") })],
        demands: [aDemand("a", { ...part, selection: ssd }), aDemand("b", part)],
      },
      { start: ["large for a"], bound: { a: "gpu-r1-0", b: "m1" } },
    ],
  ]);
});

describe("a gang with several selections", () => {
  const machines = [aMachine("m1", joined("m1", { disk: "ssd" })), aMachine("m2", joined("m2"))];
  checkPlans([
    [
      "gets both machines when only one order of them fits",
      { machines, demands: [aDemand("a", gang), aDemand("b", { ...gang, selection: ssd })] },
      { start: [], bound: { a: "m2", b: "m1" } },
    ],
    [
      "leaves nodes to its later demands that only they accept",
      {
        machines: [...machines, aMachine("m3", joined("m3", { disk: "ssd" }, [gpu]))],
        demands: [
          aDemand("a", { ...gang, selection: { ...ssd, tolerations: tolerant.tolerations } }),
          aDemand("b", { ...gang, selection: ssd }),
        ],
      },
      { start: [], bound: { a: "m3", b: "m1" } },
    ],
    [
      "shares a new node that all of its parts may accept",
      {
        pools: [aPool({ instanceTypes: [{ name: "large", cpuMilli: 8, memoryBytes: undefined, gpus: 0 }] })],
        demands: [aDemand("a", { ...gang, ...part }), aDemand("b", { ...gang, ...part, selection: ssd })],
      },
      { start: ["large for a"], bound: { a: "gpu-r1-0", b: "gpu-r1-0" } },
    ],
  ]);

  it("is planned once", () => {
    const demands = [aDemand("a", gang), aDemand("b", { ...gang, selection: ssd })];
    const snapshot = aSnapshot({ nodes: [hdd], demands });
    const plan = computeScaling(snapshot);
    expect(plan.start).toHaveLength(1);
    const again = computeScaling(applyPlan(snapshot, plan, "r2"));
    expect([again.start, again.stop, again.updates]).toEqual([[], [], []]);
  });
});

describe("a demand for a whole node with a minimum", () => {
  const minimum = { terms: [], tolerations: [], minimum: { cpu: 4, "example.com/gpu": 1 } };
  const demand = (types: readonly string[]) => aDemand("a", { selection: minimum, gpus: 1, instanceTypes: types });
  const type = (name: string, cpuMilli: number | undefined, gpus = 1) => ({
    name,
    cpuMilli,
    memoryBytes: undefined,
    gpus,
  });
  const ofSize = (name: string, cpu: number | undefined) => {
    const known = { pods: 10, "example.com/gpu": 1 };
    return {
      joined: { name, labels: {}, taints: [], ...(cpu !== undefined && { allocatable: amounts({ ...known, cpu }) }) },
    };
  };
  const small = aPool({ instanceTypes: [type("large", 2), type("huge", 8)] });

  checkPlans([
    [
      "takes only nodes and machines that are large enough",
      {
        machines: [aMachine("m1", ofSize("m1", 2)), aMachine("m2", ofSize("m2", undefined))],
        nodes: [
          { ...aNode("n1", { gpus: 1 }), ...ofSize("k1", 2) },
          { ...aNode("n2", { gpus: 1 }), ...ofSize("k2", 4) },
        ],
        pools: [aPool({ instanceTypes: [type("large", undefined)] })],
        demands: [demand(["large"])],
      },
      { start: [], bound: { a: "n2" } },
    ],
    [
      "gets a new node of the first type that holds it",
      { pools: [small], demands: [demand(["large", "huge"])] },
      { start: ["huge for a"] },
    ],
    [
      "gets one of a type with more GPUs if only that holds it",
      { pools: [aPool({ instanceTypes: [type("large", 8, 0), type("huge", 8)] })], demands: [demand(["large"])] },
      { start: ["huge for a"] },
    ],
    [
      "waits if no type of the pool is large enough",
      { pools: [aPool({ instanceTypes: [type("large", 2)] })], demands: [demand(["large"])] },
      { start: [], waits: ["a TOO_LARGE a"] },
    ],
    [
      "waits for a node that boots, unless its type is too small",
      {
        pools: [small],
        nodes: [
          aNode("n1", { phase: "Created", gpus: 1 }),
          aNode("n2", { phase: "Created", gpus: 1, instanceType: "huge" }),
        ],
        demands: [demand(["large", "huge"])],
      },
      { start: [], bound: { a: "n2" } },
    ],
    [
      "waits for a node that has joined, whose size is not known yet",
      {
        pools: [aPool({ instanceTypes: [type("large", undefined)] })],
        nodes: [{ ...aNode("n1", { gpus: 1 }), ...ofSize("k1", undefined) }],
        demands: [demand(["large"])],
      },
      { start: [], bound: { a: "n1" } },
    ],
  ]);
});

describe("a zone that the provider does not have", () => {
  const unknown = {
    ...aShortage(),
    zone: "zone-x",
    message: "zone: zone-x is none of zone-a",
    isUnknownZone: true,
  } as const;

  checkPlans([
    [
      "has its own code if it is the only zone",
      { pools: [aPool({ zones: ["zone-x"] })], unavailable: [unknown], demands: [aDemand("a")] },
      { start: [], waits: ["a ZONE_UNKNOWN a"] },
    ],
    [
      "is skipped if other zones exist",
      { pools: [aPool({ zones: ["zone-x", "zone-a"] })], unavailable: [unknown], demands: [aDemand("a")] },
      { start: ["large in zone-a for a"] },
    ],
    [
      "does not hide that the other zones are full",
      {
        pools: [aPool({ zones: ["zone-x", "zone-a"] })],
        unavailable: [unknown, { ...aShortage(), zone: "zone-a" }],
        demands: [aDemand("a")],
      },
      { start: [], waits: ["a UNAVAILABLE a"] },
    ],
  ]);
});
