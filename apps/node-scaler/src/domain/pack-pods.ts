import { findUntolerated, type Toleration } from "@muster/resources";
import type { Demand } from "./demand.ts";
import { FULL_LOAD, indexLoads, computeMinLoad, type NodeLoad, type NodeLoads } from "./first-fit.ts";
import type { InstanceType, PoolPolicy } from "./pool.ts";

/** A pod for which no node has room, and that would run on nodes of a pool. */
export type PendingPod = {
  readonly namespace: string;
  readonly name: string;
  readonly createdAtMs: number;
  readonly pool: string;
  readonly zone: string | undefined;
  /** Requests of the pod. */
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly gpus: number;
  /** Absent for none. */
  readonly tolerations?: readonly Toleration[];
};

/** The part of a node that pods can use. The system takes the rest, so a pod as large as a whole node fits on no node. */
const USABLE = 0.9;

/** Pods that share a node; positions count over all bins of a pool and zone, in the order of their creation. */
type Bin = {
  readonly first: PendingPod;
  readonly types: readonly InstanceType[];
  readonly place: number;
  load: NodeLoad;
};

/**
 * Packs pods onto as few nodes as fit their requests: the largest first, each onto the first node with room. A demand has the name of the first pod on its
 * node, and keeps that name while this pod waits. Pods that fit on no type of their pool, or do not tolerate the taints of its nodes, create no demand.
 */
export function packPods(pods: readonly PendingPod[], policies: ReadonlyMap<string, PoolPolicy>): Demand[] {
  const placeable = pods.filter(
    ({ pool, tolerations = [] }) => findUntolerated(policies.get(pool)?.taints ?? [], tolerations) === undefined,
  );
  const apart = Map.groupBy(placeable.sort(largestFirst), ({ pool, zone }) => `${pool}\n${zone ?? ""}`);
  return [...apart.values()].flatMap((alike) => {
    const policy = policies.get(alike[0]?.pool ?? "");
    return policy === undefined ? [] : packPodsOfPool(alike, policy).map((bin) => buildDemand(bin, policy));
  });
}

/** Bins of the same types; bins of other types have room for other pods. */
type BinsOfTypes = { readonly types: readonly InstanceType[]; readonly bins: Bin[]; readonly loads: NodeLoads };

/** Packs pods of one pool that may share nodes, the largest first. */
function packPodsOfPool(pods: readonly PendingPod[], policy: PoolPolicy): readonly Bin[] {
  const bins: Bin[] = [];
  const kinds = new Map<string, BinsOfTypes>();
  const smallest = pods.reduce<NodeLoad>(computeMinLoad, FULL_LOAD);
  // A bin without room for the smallest pod is never searched again, even if it lacks only one amount.
  const note = ({ types, loads }: BinsOfTypes, index: number, load: NodeLoad): void =>
    loads.set(index, hasRoom(types, load, smallest) ? load : FULL_LOAD);
  for (const pod of pods) {
    const found = findRoom(pod, kinds.values());
    if (found !== undefined) {
      found.bin.load = sum(found.bin.load, pod);
      note(found.kind, found.index, found.bin.load);
      continue;
    }
    const types = typesFor(pod, policy);
    if (types.length === 0) continue;
    const name = types.map((type) => type.name).join("\n");
    const kind = kinds.get(name) ?? { types, bins: [], loads: indexLoads() };
    kinds.set(name, kind);
    const { cpuMilli, memoryBytes, gpus } = pod;
    const load = { cpuMilli, memoryBytes, gpus };
    const bin = { first: pod, types, place: bins.length, load };
    note(kind, kind.bins.length, load);
    kind.bins.push(bin);
    bins.push(bin);
  }
  return bins;
}

type Room = { readonly kind: BinsOfTypes; readonly index: number; readonly bin: Bin };

/** Returns the oldest bin with room for the pod. */
function findRoom(pod: PendingPod, kinds: Iterable<BinsOfTypes>): Room | undefined {
  let first: Room | undefined;
  for (const kind of kinds) {
    const index = kind.loads.find((load) => hasRoom(kind.types, load, pod));
    const bin = index === undefined ? undefined : kind.bins[index];
    if (index === undefined || bin === undefined) continue;
    if (first === undefined || bin.place < first.bin.place) first = { kind, index, bin };
  }
  return first;
}

function hasRoom(types: readonly InstanceType[], load: NodeLoad, pod: NodeLoad): boolean {
  const together = sum(load, pod);
  return types.some((type) => fits(type, together));
}

/** Returns types with room for the pod, all with as many GPUs as the first type with the fewest. */
function typesFor(pod: PendingPod, { instanceTypes }: PoolPolicy): readonly InstanceType[] {
  const possible = instanceTypes.filter((type) => fits(type, pod));
  const fewest = Math.min(...possible.map(({ gpus }) => gpus));
  return possible.filter(({ gpus }) => gpus === fewest);
}

function fits(type: InstanceType, { cpuMilli, memoryBytes, gpus }: NodeLoad): boolean {
  return (
    (type.cpuMilli === undefined || cpuMilli <= type.cpuMilli * USABLE) &&
    (type.memoryBytes === undefined || memoryBytes <= type.memoryBytes * USABLE) &&
    gpus <= type.gpus
  );
}

function sum(one: NodeLoad, other: NodeLoad): NodeLoad {
  return {
    cpuMilli: one.cpuMilli + other.cpuMilli,
    memoryBytes: one.memoryBytes + other.memoryBytes,
    gpus: one.gpus + other.gpus,
  };
}

function largestFirst(one: PendingPod, other: PendingPod): number {
  return (
    other.gpus - one.gpus ||
    other.cpuMilli - one.cpuMilli ||
    other.memoryBytes - one.memoryBytes ||
    one.createdAtMs - other.createdAtMs ||
    (buildPodKey(one) < buildPodKey(other) ? -1 : 1)
  );
}

function buildPodKey({ namespace, name }: PendingPod): string {
  return `${namespace}/${name}`;
}

function buildDemand({ first, types, load }: Bin, { spot, privateIpOnly, taints }: PoolPolicy): Demand {
  return {
    name: `pods/${buildPodKey(first)}`,
    group: undefined,
    pool: first.pool,
    createdAtMs: first.createdAtMs,
    instanceTypes: types.filter((type) => fits(type, load)).map(({ name }) => name),
    spot,
    zone: first.zone,
    gpus: types[0]?.gpus ?? 0,
    volumeGib: undefined,
    privateIpOnly,
    needsEmptyNode: true,
    // The taints that all pods of the bin tolerate.
    ...(taints.length > 0 && { selection: { terms: [], tolerations: taints } }),
  };
}
