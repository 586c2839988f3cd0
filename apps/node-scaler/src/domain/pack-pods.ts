import type { Demand } from "./demand.ts";
import type { InstanceType, PoolPolicy } from "./pool.ts";

/** A pod that no node has room for, and that would run on nodes of a pool. */
export type PendingPod = {
  readonly namespace: string;
  readonly name: string;
  readonly createdAtMs: number;
  readonly pool: string;
  readonly zone: string | undefined;
  /** What it asks for. */
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly gpus: number;
};

/** What the system itself takes of a node: a pod as large as the whole of it fits on none. */
const USABLE = 0.9;

type Bin = {
  readonly first: PendingPod;
  readonly types: readonly InstanceType[];
  cpuMilli: number;
  memoryBytes: number;
  gpus: number;
};

/**
 * Packs pods onto as few nodes as fit by what they ask for: the largest first, each onto the first node with room. A demand is named after the pod that its node was
 * begun for, so that it keeps its name as long as that pod waits. Pods that fit on no type of their pool make no demand.
 */
export function packPods(pods: readonly PendingPod[], policies: ReadonlyMap<string, PoolPolicy>): Demand[] {
  const bins = new Map<string, Bin[]>();
  for (const pod of pods.toSorted(largestFirst)) {
    const policy = policies.get(pod.pool);
    if (policy === undefined) continue;
    const key = `${pod.pool}\n${pod.zone ?? ""}`;
    const open = bins.get(key) ?? [];
    bins.set(key, open);
    const bin = open.find((candidate) => candidate.types.some((type) => fits(type, sum(candidate, pod))));
    if (bin !== undefined) {
      Object.assign(bin, sum(bin, pod));
      continue;
    }
    const types = typesFor(pod, policy);
    if (types.length === 0) continue;
    const { cpuMilli, memoryBytes, gpus } = pod;
    open.push({ first: pod, types, cpuMilli, memoryBytes, gpus });
  }
  return [...bins.values()].flat().map((bin) => buildDemand(bin, policies.get(bin.first.pool)));
}

type Request = Pick<Bin, "cpuMilli" | "memoryBytes" | "gpus">;

/** Types with room for the pod, all with as many GPUs as the first of those that have the fewest. */
function typesFor(pod: PendingPod, { instanceTypes }: PoolPolicy): readonly InstanceType[] {
  const possible = instanceTypes.filter((type) => fits(type, pod));
  const fewest = Math.min(...possible.map(({ gpus }) => gpus));
  return possible.filter(({ gpus }) => gpus === fewest);
}

function fits(type: InstanceType, { cpuMilli, memoryBytes, gpus }: Request): boolean {
  return (
    (type.cpuMilli === undefined || cpuMilli <= type.cpuMilli * USABLE) &&
    (type.memoryBytes === undefined || memoryBytes <= type.memoryBytes * USABLE) &&
    gpus <= type.gpus
  );
}

function sum(one: Request, other: Request): Request {
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
    (keyOf(one) < keyOf(other) ? -1 : 1)
  );
}

function keyOf({ namespace, name }: PendingPod): string {
  return `${namespace}/${name}`;
}

function buildDemand(bin: Bin, policy: PoolPolicy | undefined): Demand {
  const { first, types } = bin;
  return {
    name: `pods/${keyOf(first)}`,
    group: undefined,
    pool: first.pool,
    createdAtMs: first.createdAtMs,
    instanceTypes: types.filter((type) => fits(type, bin)).map(({ name }) => name),
    spot: policy?.spot ?? "Never",
    zone: first.zone,
    gpus: types[0]?.gpus ?? 0,
    volumeGib: undefined,
    privateIpOnly: policy?.privateIpOnly ?? false,
  };
}
