import { describe, expect, it } from "vitest";
import { buildNode, buildPolicy } from "../../test/build-node.ts";
import { buildKubeNode, buildMachine, inCluster, inLedger } from "../../test/build-sightings.ts";
import { toAmounts, observeSizes, buildNodeSizes, listInstanceTypes, type SeenSizes } from "./node-sizes.ts";
import type { InstanceType } from "./pool.ts";

const GPU = "nvidia.com/gpu";
const amounts = (record: Readonly<Record<string, number>>) => new Map(Object.entries(record));
const type = (name: string, cpuMilli?: number, memoryBytes?: number, gpus = 0): InstanceType => {
  return { name, cpuMilli, memoryBytes, gpus };
};
const seen = (parts: Partial<SeenSizes>): SeenSizes => {
  return { byType: new Map(), overheadByType: new Map(), smallest: undefined, overhead: new Map(), ...parts };
};

describe("the size of a new node of a type", () => {
  const holds = (one: InstanceType, known?: SeenSizes) => {
    const size = buildNodeSizes(buildPolicy({ instanceTypes: [one] }), known).get(one.name);
    return size && Object.fromEntries(toAmounts(size, ["cpu", "memory", GPU, "example.com/nic"]));
  };
  const nothing = { cpu: Infinity, memory: Infinity, pods: Infinity, [GPU]: 0, "example.com/nic": Infinity };

  it.each<[string, InstanceType, SeenSizes | undefined, Record<string, number>]>([
    ["is unknown without any facts", type("a"), undefined, nothing],
    [
      "is that in the file of pools, with the default pods of a kubelet",
      type("a", 4000, 100, 2),
      undefined,
      { cpu: 4000, memory: 100, pods: 110, [GPU]: 2, "example.com/nic": Infinity },
    ],
    ["is unknown for amounts that the file omits", type("a", 4000), undefined, { ...nothing, cpu: 4000, pods: 110 }],
    [
      "is less by the largest overhead of the pool",
      type("a", 4000, 100),
      seen({ overhead: amounts({ cpu: 300, memory: 20, pods: 4 }) }),
      { cpu: 3700, memory: 80, pods: 106, [GPU]: 0, "example.com/nic": Infinity },
    ],
    [
      "is exactly that of a ready node of the type",
      type("a", 4000, 100, 8),
      seen({ byType: new Map([["a", amounts({ cpu: 3900, memory: 90, pods: 29, [GPU]: 7 })]]) }),
      { cpu: 3900, memory: 90, pods: 29, [GPU]: 7 },
    ],
    [
      "is that of a ready node of the type, less the excess of the pool's largest overhead over its own",
      type("a", 4000, 100),
      seen({
        byType: new Map([["a", amounts({ cpu: 3900, memory: 90, pods: 29 })]]),
        overheadByType: new Map([["a", amounts({ cpu: 100, memory: 10, pods: 1 })]]),
        overhead: amounts({ cpu: 300, memory: 5, pods: 4 }),
      }),
      { cpu: 3700, memory: 90, pods: 26 },
    ],
    [
      "is that of the smallest node of the pool if the file states none, with the GPUs of the file",
      type("a", undefined, undefined, 1),
      seen({ smallest: amounts({ cpu: 3900, pods: 29 }) }),
      { cpu: 3900, pods: 29, [GPU]: 1 },
    ],
  ])("%s", (_what, one, known, expected) => {
    expect(holds(one, known)).toEqual(expected);
  });
});

describe("the types for a need", () => {
  const instanceTypes = [type("small", 2000, 100), type("gpu", 8000, 100, 1), type("large", 8000, 100)];
  const policy = buildPolicy({ instanceTypes });
  const names = (requests: Record<string, number>) =>
    listInstanceTypes(amounts(requests), policy, buildNodeSizes(policy, undefined)).map(({ name }) => name);
  it.each<[string, Record<string, number>, string[]]>([
    ["are those that are large enough", { cpu: 1000 }, ["small", "large"]],
    ["exclude types that are too small", { cpu: 4000 }, ["large"]],
    ["have GPUs only if the need requests them", { [GPU]: 1 }, ["gpu"]],
    ["do not exist for a need that is too large", { cpu: 9000 }, []],
    ["include all types for a resource of unknown amount", { "example.com/nic": 1 }, ["small", "large"]],
  ])("%s", (_what, requests, expected) => {
    expect(names(requests)).toEqual(expected);
  });
});

describe("the observed sizes", () => {
  const small = { spec: { instanceType: "small" } };
  const machine = (name: string, allocatable: Record<string, number>, parts = {}) =>
    buildMachine(name, "FREE", undefined, { allocatable: amounts(allocatable), ...parts });
  const see = (before: ReadonlyMap<string, SeenSizes> = new Map()) =>
    observeSizes(before, {
      nodes: [buildNode("n1", small), buildNode("n2", small), buildNode("n3", small)],
      machines: inLedger(
        machine("n1", { cpu: 3900, memory: 90, [GPU]: 0 }),
        machine("n2", { cpu: 3800, memory: 95, [GPU]: 2 }),
        machine("n3", { cpu: 1 }),
        machine("other", { cpu: 1000, memory: 10 }),
        machine("unknown", {}),
      ),
      kubeNodes: inCluster(
        buildKubeNode("n1", { overhead: amounts({ cpu: 100, pods: 2 }) }),
        buildKubeNode("n2", { overhead: amounts({ cpu: 50, memory: 5 }) }),
        buildKubeNode("n3", { ready: false }),
        buildKubeNode("other"),
        buildKubeNode("unknown"),
      ),
    });

  it("are the smallest of each type and of the pool, and the largest overhead, of ready nodes", () => {
    expect(see().get("a")).toEqual({
      byType: new Map([["small", amounts({ cpu: 3800, memory: 90, [GPU]: 2 })]]),
      overheadByType: new Map([["small", amounts({ cpu: 100, memory: 5, pods: 2 })]]),
      smallest: amounts({ cpu: 1000, memory: 10, [GPU]: 2 }),
      overhead: amounts({ cpu: 100, memory: 5, pods: 2 }),
    });
  });

  it("stay while no ready node shows more", () => {
    const large = seen({ byType: new Map([["large", amounts({ cpu: 8000 })]]) });
    expect(
      see(new Map([["a", large]]))
        .get("a")
        ?.byType.get("large"),
    ).toEqual(amounts({ cpu: 8000 }));
    const nothing = { nodes: [], machines: inLedger(), kubeNodes: inCluster() };
    expect(observeSizes(see(), nothing)).toEqual(see());
  });
});
