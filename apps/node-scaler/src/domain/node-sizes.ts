import { canFit, getMinimum, subtractAmounts, type Amounts, type NodeSelection } from "@muster/resources";
import type { ScaledNode } from "./node.ts";
import type { InstanceType, PoolPolicy } from "./pool.ts";
import type { KubeNodes, Machines } from "./sightings.ts";

/** The sizes of ready nodes of a pool, which predict the sizes of further nodes. */
export type SeenSizes = {
  /** The smallest allocatable amounts without the overhead, by instance type, of nodes of the scaler. */
  readonly byType: ReadonlyMap<string, Amounts>;
  /** The largest overhead of the same nodes, by instance type. */
  readonly overheadByType: ReadonlyMap<string, Amounts>;
  /** The smallest amounts of all nodes of the pool. Undefined if no size is known. */
  readonly smallest: Amounts | undefined;
  /** The largest overhead of all nodes of the pool. */
  readonly overhead: Amounts;
};

/** The room for shared needs of a node that is still to join. */
export type NodeSize = {
  readonly known: Amounts;
  /** The number of GPUs of all kinds. Undefined if `known` has them. */
  readonly gpus: number | undefined;
  /** True if the amounts of other resources are unknown; false if the node has no other resources. */
  readonly isInPart: boolean;
};

/** The default of a kubelet. If a node has fewer, the next round observes it. */
const MAX_PODS = 110;

/**
 * Observes the sizes of nodes by pool. The sizes are kept after the last node has ended. A need that is too large for a node must not create another one as
 * soon as the first has ended as idle.
 */
export function observeSizes(
  before: ReadonlyMap<string, SeenSizes>,
  {
    nodes,
    machines,
    kubeNodes,
  }: { readonly nodes: readonly ScaledNode[]; readonly machines: Machines; readonly kubeNodes: KubeNodes },
): ReadonlyMap<string, SeenSizes> {
  const types = new Map(nodes.map(({ spec, status }) => [status.kubernetesNode, spec.instanceType]));
  const ready = [...machines.byNode.values()].flatMap(({ node, pool, allocatable }) => {
    const kubeNode = kubeNodes.byName.get(node);
    if (kubeNode?.ready !== true || allocatable.size === 0) return [];
    return [{ pool, type: types.get(node), allocatable, overhead: kubeNode.overhead }];
  });
  const after = new Map(before);
  for (const [pool, seen] of Map.groupBy(ready, (one) => one.pool)) {
    const byType = new Map(before.get(pool)?.byType);
    const overheadByType = new Map(before.get(pool)?.overheadByType);
    for (const [type, alike] of Map.groupBy(seen, (one) => one.type)) {
      if (type === undefined) continue;
      byType.set(type, computeSmallest(alike.map(({ allocatable }) => allocatable)));
      overheadByType.set(type, computeLargest(alike.map(({ overhead }) => overhead)));
    }
    after.set(pool, {
      byType,
      overheadByType,
      smallest: computeSmallest(seen.map(({ allocatable }) => allocatable)),
      overhead: computeLargest(seen.map(({ overhead }) => overhead)),
    });
  }
  return after;
}

/**
 * Returns the smallest amounts. A node whose device plugin has not reported yet has 0 of a resource that other nodes have, so 0 counts only if all nodes have
 * 0.
 */
function computeSmallest(all: readonly Amounts[]): Amounts {
  const smallest = new Map<string, number>();
  for (const amounts of all)
    for (const [resource, amount] of amounts) {
      const known = smallest.get(resource) ?? 0;
      smallest.set(resource, known === 0 || amount === 0 ? Math.max(known, amount) : Math.min(known, amount));
    }
  return smallest;
}

function computeLargest(all: readonly Amounts[]): Amounts {
  const largest = new Map<string, number>();
  for (const amounts of all)
    for (const [resource, amount] of amounts) largest.set(resource, Math.max(amount, largest.get(resource) ?? 0));
  return largest;
}

/** Returns the sizes of all instance types of a pool. */
export function buildNodeSizes(
  { instanceTypes }: PoolPolicy,
  seen: SeenSizes | undefined,
): ReadonlyMap<string, NodeSize> {
  return new Map(instanceTypes.map((type) => [type.name, computeSize(type, seen)]));
}

/**
 * Returns the size of a node of a type: the size of a ready node of that type, with at least the largest overhead of the pool. Otherwise it is the size in the
 * file of pools, less that overhead, or else the size of the smallest node of the pool. Without any of these a node serves one need. That can create too many
 * nodes, and the next round observes the real size.
 */
function computeSize({ name, cpuMilli, memoryBytes, gpus }: InstanceType, seen: SeenSizes | undefined): NodeSize {
  const ofType = seen?.byType.get(name);
  if (seen !== undefined && ofType !== undefined)
    return { known: subtractAmounts(ofType, furtherOverhead(name, seen)), gpus: undefined, isInPart: false };
  if (cpuMilli !== undefined || memoryBytes !== undefined) {
    const written = new Map([["pods", MAX_PODS]]);
    if (cpuMilli !== undefined) written.set("cpu", cpuMilli);
    if (memoryBytes !== undefined) written.set("memory", memoryBytes);
    return { known: subtractAmounts(written, seen?.overhead ?? new Map()), gpus, isInPart: true };
  }
  if (seen?.smallest !== undefined) return { known: seen.smallest, gpus, isInPart: false };
  return { known: new Map(), gpus, isInPart: true };
}

/** Returns by how much the largest overhead of the pool exceeds that of the type: a DaemonSet may not have reached the nodes of the type yet. */
function furtherOverhead(type: string, { overhead, overheadByType }: SeenSizes): Amounts {
  return subtractAmounts(overhead, overheadByType.get(type) ?? new Map());
}

/** Returns the amounts of these resources. An unknown amount is Infinity, so that any first request of it fits. */
export function toAmounts({ known, gpus, isInPart }: NodeSize, resources: Iterable<string>): Amounts {
  const amounts = new Map(known);
  for (const resource of [...resources, "pods"]) {
    if (gpus !== undefined && isGpu(resource)) amounts.set(resource, gpus);
    else if (isInPart && !known.has(resource)) amounts.set(resource, Infinity);
  }
  return amounts;
}

function isGpu(resource: string): boolean {
  return resource.endsWith("/gpu");
}

/** Whether a node of this size may provide the minimum of the selection: an unknown amount is large enough. */
export function mayHoldMinimum(selection: NodeSelection | undefined, size: NodeSize | undefined): boolean {
  const minimum = getMinimum(selection);
  return minimum === undefined || size === undefined || canFit(minimum, toAmounts(size, minimum.keys()));
}

/**
 * Returns the types of a pool that can provide these requests of a need, in order of preference. All have as many GPUs as the first type with the fewest. Empty
 * if the need is too large for the pool.
 */
export function listInstanceTypes(
  requests: Amounts,
  { instanceTypes }: PoolPolicy,
  sizes: ReadonlyMap<string, NodeSize>,
): readonly InstanceType[] {
  const possible = instanceTypes.filter(({ name }) => {
    const size = sizes.get(name);
    return size !== undefined && canFit(requests, toAmounts(size, requests.keys()));
  });
  const fewest = Math.min(...possible.map(({ gpus }) => gpus));
  return possible.filter(({ gpus }) => gpus === fewest);
}
