import { acceptsNode, type NodeSelection } from "@muster/resources";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { packByLoops } from "../../bench/pack-by-loops.ts";
import { buildPolicy } from "../../test/build-node.ts";
import { buildDemands } from "./build-demands.ts";
import { mayAccept } from "./may-accept.ts";
import { packPods, type PendingPod } from "./pack-pods.ts";

const GIB = 2 ** 30;
const small = { name: "small", cpuMilli: 4000, memoryBytes: 8 * GIB, gpus: 0 };
const large = { name: "large", cpuMilli: 16_000, memoryBytes: 64 * GIB, gpus: 0 };
const gpu = { name: "gpu", cpuMilli: 16_000, memoryBytes: 64 * GIB, gpus: 4 };
const policies = new Map([["a", buildPolicy({ instanceTypes: [small, large, gpu], spot: "Preferred" })]]);

function pod(name: string, parts: Partial<PendingPod> = {}): PendingPod {
  return {
    namespace: "default",
    name,
    createdAtMs: 5,
    pool: "a",
    zone: undefined,
    cpuMilli: 1000,
    memoryBytes: GIB,
    gpus: 0,
    ...parts,
  };
}

const shown = (...pods: PendingPod[]) =>
  packPods(pods, policies).map(({ name, instanceTypes }) => [name, ...instanceTypes]);

describe("pending pods", () => {
  it("share a node as long as they fit on one", () => {
    expect(shown(pod("a"), pod("b"), pod("c"))).toEqual([["pods/default/a", "small", "large"]]);
  });

  it("are placed on a larger type, or on more nodes, if they do not fit", () => {
    const many = Array.from({ length: 20 }, (_, index) => pod(`p${String(index).padStart(2, "0")}`));
    expect(shown(...many)).toEqual([
      ["pods/default/p00", "large"],
      ["pods/default/p14", "large"],
    ]);
  });

  it("get no node that the system already fills", () => {
    expect(shown(pod("a", { cpuMilli: 4000 }))).toEqual([["pods/default/a", "large"]]);
    expect(shown(pod("a", { cpuMilli: 16_000 }))).toEqual([]);
  });

  it("get GPUs only if they request them, and share those", () => {
    expect(packPods([pod("a", { gpus: 2 }), pod("b", { gpus: 2 }), pod("c", { gpus: 1 })], policies)).toMatchObject([
      { name: "pods/default/a", gpus: 4, instanceTypes: ["gpu"], spot: "Preferred" },
      { name: "pods/default/c", gpus: 4, instanceTypes: ["gpu"] },
    ]);
  });

  it("of different zones and pools do not share", () => {
    const apart = [pod("a", { zone: "x" }), pod("b", { zone: "y" }), pod("c", { pool: "other" })];
    expect(packPods(apart, policies).map(({ name, zone }) => [name, zone])).toEqual([
      ["pods/default/a", "x"],
      ["pods/default/b", "y"],
    ]);
  });

  it("are packed equally in whatever order they arrive, each demand with room for its pods", () => {
    const pods = fc.array(
      fc.record({
        cpuMilli: fc.integer({ min: 1, max: 14_000 }),
        memoryBytes: fc.integer({ min: 1, max: 50 * GIB }),
        gpus: fc.nat(4),
      }),
      { maxLength: 20 },
    );
    fc.assert(
      fc.property(pods, (requests) => {
        const named = requests.map((request, index) => pod(`p${index}`, request));
        const demands = packPods(named, policies);
        expect(packPods(named.toReversed(), policies)).toEqual(demands);
        expect(demands.length).toBeLessThanOrEqual(named.length);
        expect(demands.every(({ instanceTypes }) => instanceTypes.length > 0)).toBe(true);
        if (named.length > 0) expect(demands.length).toBeGreaterThan(0);
      }),
    );
  });

  it("are packed as by testing each pod against each node", () => {
    const unknown = { name: "unknown", cpuMilli: undefined, memoryBytes: undefined, gpus: 1 };
    const wide = { name: "wide", cpuMilli: 2000, memoryBytes: 64 * GIB, gpus: 0 };
    const instanceTypes = fc.shuffledSubarray([small, large, gpu, wide, unknown], { minLength: 1 });
    const pods = fc.array(
      fc.record({
        cpuMilli: fc.oneof(fc.integer({ min: 1, max: 16_000 }), fc.constantFrom(10, 100, 1800)),
        memoryBytes: fc.oneof(fc.integer({ min: 1, max: 60 * GIB }), fc.constantFrom(1, GIB, 30 * GIB)),
        gpus: fc.constantFrom(0, 0, 0, 1, 4),
        zone: fc.constantFrom(undefined, undefined, "x"),
        pool: fc.constantFrom("a", "a", "a", "b", "other"),
      }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(pods, instanceTypes, (requests, types) => {
        const pools = new Map([...policies, ["b", buildPolicy({ name: "b", instanceTypes: types })]]);
        const named = requests.map((request, index) => pod(`p${index}`, request));
        const packed = packPods(named, pools).map((demand) => [demand.name, ...demand.instanceTypes]);
        expect(packed).toEqual(packByLoops(named, pools));
      }),
      { numRuns: 500 },
    );
  });

  it("are packed at the cost of sorting them, even if some nodes lack CPU and all others memory", () => {
    const countReads = (size: number): number => {
      let reads = 0;
      const pods = Array.from({ length: size }, (_, index) => {
        const request = { cpuMilli: 7000 - index / size, memoryBytes: index % 2 === 0 ? 57 * GIB : GIB };
        const later = { cpuMilli: index % 4 === 2 ? 7399 - index / size : 10 + index / size, memoryBytes: GIB };
        return new Proxy(pod(`p${index}`, index < size / 2 ? request : later), {
          get: (target, key) => {
            reads += 1;
            return Reflect.get(target, key) as unknown;
          },
        });
      });
      packPods(pods, policies);
      return reads;
    };
    expect(countReads(4000)).toBeLessThan(countReads(500) * 8 * 2);
  });
});

it("creates demands of pending pods that tolerate the taints of the pool, and these demands accept its nodes", () => {
  const taints = [{ key: "gpu", value: "a", effect: "NoSchedule" }];
  const tainted = new Map([["a", buildPolicy({ taints })]]);
  const tolerations = [{ key: "gpu", operator: "Exists" }];
  const demands = packPods([pod("p1"), pod("p2", { tolerations })], tainted);
  expect(demands).toMatchObject([{ name: "pods/default/p2", selection: { terms: [], tolerations: taints } }]);
  expect(acceptsNode(demands[0]?.selection, { name: "n", labels: {}, taints })).toBe(true);
});

it.each([
  ["tolerates", [{ key: "gpu", operator: "Exists" }], true],
  ["does not tolerate", [], false],
])("creates a demand of a reservation that %s the taints of the pool: %#", (_title, tolerations, isAccepted) => {
  const taints = [{ key: "gpu", effect: "NoSchedule" }];
  const tainted = new Map([["a", buildPolicy({ taints })]]);
  const waiting = (need: object) => [
    { owner: { kind: "job", id: "j" }, createdAtMs: 7, needs: [{ component: "c", pool: "a", ...need }] },
  ];
  const selection = { terms: [], tolerations };
  expect(buildDemands(waiting({ selection }), tainted)).toMatchObject([{ selection }]);
  expect(buildDemands(waiting({}), tainted)).toHaveLength(1);
  expect(mayAccept(selection, buildPolicy({ taints }))).toBe(isAccepted);
  expect(mayAccept(undefined, buildPolicy({ taints }))).toBe(false);
});

it.each<[string, NodeSelection["terms"], boolean]>([
  ["any node", [], true],
  ["a label that its nodes have", [{ matchExpressions: [{ key: "zone", operator: "In", values: ["z"] }] }], true],
  ["a label that its nodes may have", [{ matchExpressions: [{ key: "disk", operator: "Exists" }] }], true],
  [
    "a label that its nodes do not have",
    [{ matchExpressions: [{ key: "zone", operator: "NotIn", values: ["z"] }] }],
    false,
  ],
  ["every name but one", [{ matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["n"] }] }], true],
  ["one name", [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] }], false],
  ["no node", [{}], false],
])("creates demands of a reservation that accepts %s: %#", (_title, terms, isAccepted) => {
  const [policy] = policies.values();
  if (policy === undefined) throw new Error("no pool");
  const labelled = { ...policy, labels: { zone: "z" } };
  const selection = { terms, tolerations: [] };
  const need = { pool: policy.name, selection };
  const needs = [
    { component: "driver", ...need },
    { component: "server", pool: policy.name },
  ];
  const owner = { kind: "job", id: "j" };
  expect(buildDemands([{ owner, createdAtMs: 7, needs }], new Map([[policy.name, labelled]]))).toHaveLength(2);
  expect(mayAccept(selection, labelled)).toBe(isAccepted);
});

it("creates no demands of a reservation with a need for an unscaled pool, if no node of that could match", () => {
  const owner = { kind: "job", id: "j" };
  const needs = [
    { component: "driver", pool: "fixed", selection: { terms: [{}], tolerations: [] } },
    { component: "server", pool: "a" },
  ];
  expect(buildDemands([{ owner, createdAtMs: 7, needs }], policies)).toEqual([]);
});

it("creates one demand of each need of a reservation, with types that have as many GPUs as the first", () => {
  const owner = { kind: "session", id: "s" };
  const needs = [
    { component: "driver", pool: "a" },
    { component: "server", pool: "fixed" },
  ];
  expect(buildDemands([{ owner, createdAtMs: 7, needs }], policies)).toMatchObject([
    { name: "session/s/driver", group: "session/s", instanceTypes: ["small", "large"], gpus: 0, createdAtMs: 7 },
    { name: "session/s/server", group: "session/s", pool: "fixed", instanceTypes: [] },
  ]);
});
