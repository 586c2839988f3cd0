import fc from "fast-check";
import type { ScalingPlan, ScalingSnapshot } from "../src/domain/compute.ts";
import type { Demand, Unavailability } from "../src/domain/demand.ts";
import type { FreeMachine } from "../src/domain/fit.ts";
import type { NodeSpec, NodeStatus, NodePhase, ScaledNode, Termination } from "../src/domain/node.ts";
import type { PoolPolicy } from "../src/domain/pool.ts";

export const NOW = 10_000_000;

export function aPool(differences: Partial<PoolPolicy> = {}): PoolPolicy {
  return {
    name: "gpu",
    provider: "cloud",
    max: 100,
    instanceTypes: [
      { name: "large", cpuMilli: undefined, memoryBytes: undefined, gpus: 0, spotPricePerHourMicros: 61_000 },
      { name: "huge", cpuMilli: undefined, memoryBytes: undefined, gpus: 0 },
    ],
    spot: "Never",
    standby: [],
    idleMs: 300_000,
    reuse: true,
    bootTimeoutMs: 300_000,
    healthyTimeoutMs: 90_000,
    drainTimeoutMs: 120_000,
    zones: undefined,
    volumeGib: 20,
    privateIpOnly: false,
    bootImage: {},
    labels: {},
    taints: [],
    ...differences,
  };
}

export function aDemand(name: string, differences: Partial<Demand> = {}): Demand {
  return {
    name,
    group: undefined,
    pool: "gpu",
    createdAtMs: NOW - 1000,
    instanceTypes: ["large"],
    spot: "Never",
    zone: undefined,
    gpus: 0,
    volumeGib: undefined,
    privateIpOnly: false,
    ...differences,
  };
}

/** Builds demands that get their nodes together. */
export function aGang(size: number, differences: Partial<Demand> = {}): Demand[] {
  return Array.from({ length: size }, (_, index) => aDemand(`gang/${index}`, { group: "gang", ...differences }));
}

export function aNode(
  name: string,
  differences: Partial<NodeSpec> & Partial<Pick<NodeStatus, "phase" | "boundTo" | "idleSinceMs" | "createdAtMs">> = {},
): ScaledNode {
  const { phase = "Available", boundTo, idleSinceMs, createdAtMs = NOW - 60_000, ...spec } = differences;
  return {
    name,
    spec: {
      pool: "gpu",
      provider: "cloud",
      instanceType: "large",
      bootImage: "image-1",
      spot: false,
      zone: undefined,
      gpus: 0,
      volumeGib: 20,
      privateIpOnly: false,
      terminate: undefined,
      ...spec,
    },
    status: {
      phase,
      phaseSinceMs: createdAtMs,
      createdAtMs,
      instanceId: undefined,
      kubernetesNode: undefined,
      addresses: [],
      boundTo,
      claim: undefined,
      served: false,
      unhealthySinceMs: undefined,
      idleSinceMs,
      drainingSinceMs: undefined,
      term: 1,
      trouble: undefined,
    },
  };
}

export function aMachine(name: string, differences: Partial<FreeMachine> = {}): FreeMachine {
  return {
    name,
    pool: "gpu",
    instanceType: undefined,
    zone: undefined,
    spot: undefined,
    gpus: undefined,
    ...differences,
  };
}

export function aShortage(differences: Partial<Unavailability> = {}): Unavailability {
  return {
    provider: "cloud",
    instanceType: "large",
    spot: false,
    zone: undefined,
    subnet: undefined,
    message: "full",
    sinceMs: NOW - 10_000,
    untilMs: NOW + 590_000,
    ...differences,
  };
}

export function aTermination(code: Termination["code"] = "IDLE"): Termination {
  return { code, message: "", atMs: NOW, drainUntilMs: NOW };
}

export function aSnapshot({
  pools = [aPool()],
  ...differences
}: Partial<Omit<ScalingSnapshot, "pools">> & { readonly pools?: readonly PoolPolicy[] } = {}): ScalingSnapshot {
  return {
    nodes: [],
    machines: [],
    parts: [],
    sizes: new Map(),
    unscaledZones: new Map(),
    demands: [],
    mismatches: [],
    pools: new Map(pools.map((pool) => [pool.name, pool])),
    unavailable: [],
    bootImages: new Map(pools.map(({ name }) => [name, "image-1"])),
    fixedSizeVolumes: new Set(),
    nowMs: NOW,
    seed: "r1",
    limits: { bootsPerRound: 10, spotRequestPauseMs: 60_000 },
    ...differences,
  };
}

/** Returns the world after a plan was carried out, at the same moment. */
export function applyPlan(snapshot: ScalingSnapshot, plan: ScalingPlan, seed: string): ScalingSnapshot {
  const updates = new Map(plan.updates.map((update) => [update.name, update]));
  const stopped = new Set(plan.stop.map(({ name }) => name));
  const nodes = snapshot.nodes.map((node) => {
    const update = updates.get(node.name);
    const { boundTo, idleSinceMs } = update ?? node.status;
    const terminate = stopped.has(node.name) ? aTermination() : node.spec.terminate;
    return { ...node, spec: { ...node.spec, terminate }, status: { ...node.status, boundTo, idleSinceMs } };
  });
  const started = plan.start.map(({ name, spec, boundTo }) =>
    aNode(name, { ...spec, boundTo, phase: "Creating", createdAtMs: snapshot.nowMs, idleSinceMs: undefined }),
  );
  return { ...snapshot, nodes: [...nodes, ...started], seed };
}

const phases: NodePhase[] = ["Creating", "Created", "Available", "Claimed", "Cleaning", "Terminating", "Terminated"];
const poolNames = ["gpu", "cpu"];
const types = ["large", "huge"];
const zones = ["a", "b"];
const groups = ["g1", "g2", "g3"];

const zone = fc.option(fc.constantFrom(...zones), { nil: undefined });
const gpus = fc.constantFrom(0, 0, 0, 1);
const volumeGib = fc.constantFrom(undefined, 20, 20, 40);
const rarely = fc.constantFrom(false, false, false, true);

function poolNamed(name: string): fc.Arbitrary<PoolPolicy> {
  const standby = fc.record({
    instanceType: fc.constantFrom(...types),
    count: fc.integer({ min: 0, max: 2 }),
    spot: fc.boolean(),
  });
  return fc
    .record({
      max: fc.integer({ min: 0, max: 12 }),
      standby: fc.array(standby, { maxLength: 3 }),
      idleMs: fc.constantFrom(0, 100, 300_000),
      zones: fc.constantFrom(undefined, undefined, ["a"], ["b", "a"]),
      volumeGib: fc.constantFrom(undefined, 20),
      privateIpOnly: rarely,
      provider: fc.constantFrom("cloud", "fixed"),
    })
    .map((differences) => aPool({ name, ...differences }));
}

const demand = (index: number): fc.Arbitrary<Demand> =>
  fc
    .record({
      group: fc.option(fc.constantFrom(...groups), { nil: undefined }),
      pool: fc.constantFrom("gpu", "gpu", "gpu", "cpu", "unknown"),
      createdAtMs: fc.integer({ min: NOW - 3, max: NOW }),
      instanceTypes: fc.constantFrom(["large"], ["large", "huge"], ["huge", "large"], ["huge"]),
      spot: fc.constantFrom("Never", "Always", "Preferred"),
      zone,
      gpus,
      volumeGib,
      privateIpOnly: rarely,
    })
    .map((differences) => aDemand(`d${index}`, differences));

const node = (index: number, demands: number): fc.Arbitrary<ScaledNode> =>
  fc
    .record({
      pool: fc.constantFrom("gpu", "gpu", "gpu", "cpu", "removed"),
      instanceType: fc.constantFrom(...types),
      spot: fc.boolean(),
      zone,
      gpus,
      volumeGib,
      privateIpOnly: rarely,
      phase: fc.constantFrom(...phases.slice(0, 3), ...phases.slice(0, 3), ...phases),
      boundTo: fc.option(
        fc.integer({ min: 0, max: demands }).map((number) => `d${number}`),
        { nil: undefined },
      ),
      idleSinceMs: fc.constantFrom(undefined, NOW - 50, NOW - 200, NOW - 400_000),
      createdAtMs: fc.integer({ min: NOW - 3, max: NOW }),
      terminate: fc.constantFrom(undefined, undefined, undefined, undefined, aTermination()),
    })
    .map((differences) => aNode(`n${index}`, differences));

const machine = (index: number): fc.Arbitrary<FreeMachine> =>
  fc
    .record({
      pool: fc.constantFrom(...poolNames),
      instanceType: fc.option(fc.constantFrom(...types), { nil: undefined }),
      zone,
      spot: fc.option(fc.boolean(), { nil: undefined }),
      gpus: fc.option(gpus, { nil: undefined }),
    })
    .map((differences) => aMachine(`m${index}`, differences));

const shortage: fc.Arbitrary<Unavailability> = fc
  .record({
    provider: fc.constantFrom("cloud", "fixed"),
    instanceType: fc.constantFrom(...types),
    spot: fc.boolean(),
    zone,
    sinceMs: fc.constantFrom(NOW - 700_000, NOW - 61_000, NOW - 60_000, NOW - 59_000, NOW),
  })
  .map((differences) => aShortage({ ...differences, untilMs: differences.sinceMs + 600_000 }));

/** Generates small worlds in which all demands compete for all nodes. */
export const snapshots: fc.Arbitrary<ScalingSnapshot> = fc
  .tuple(fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: 3 }))
  .chain(([demands, nodes, machines]) =>
    fc.record({
      demands: fc.tuple(...Array.from({ length: demands }, (_, index) => demand(index))),
      nodes: fc.tuple(...Array.from({ length: nodes }, (_, index) => node(index, demands))),
      machines: fc.tuple(...Array.from({ length: machines }, (_, index) => machine(index))),
      pools: fc.tuple(...poolNames.map(poolNamed)),
      unavailable: fc.array(shortage, { maxLength: 6 }),
      images: fc.constantFrom(poolNames, poolNames, poolNames, ["gpu"]),
      seed: fc.constantFrom("r1", "r2", "r3", "r4"),
      bootsPerRound: fc.constantFrom(1, 3, 10, 100),
    }),
  )
  .map(({ images, bootsPerRound, ...world }) =>
    aSnapshot({
      ...world,
      bootImages: new Map(images.map((name) => [name, "image-1"])),
      fixedSizeVolumes: new Set(["fixed"]),
      limits: { bootsPerRound, spotRequestPauseMs: 60_000 },
    }),
  );
