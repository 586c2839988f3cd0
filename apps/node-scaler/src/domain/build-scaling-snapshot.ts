import type { ScalingSnapshot } from "./compute.ts";
import type { BootBackoff } from "./decide-boot-outcome.ts";
import type { Unavailability } from "./demand.ts";
import type { FreeMachine, JoinedNode } from "./fit.ts";
import type { NodeRoom } from "./index-rooms.ts";
import { ZONE } from "./may-accept.ts";
import type { NodePhase, ScaledNode } from "./node.ts";
import type { PoolPolicy } from "./pool.ts";
import {
  describePods,
  isCordonedByOthers,
  isFree,
  isHeld,
  isInParts,
  type KubeNodes,
  type Machine,
  type Machines,
  type PodsByNode,
} from "./sightings.ts";
import { listUndeclaredTaints } from "./tolerate-taints.ts";
import type { BootFailure } from "./transition-boot-failures.ts";

const SERVING: ReadonlySet<NodePhase> = new Set(["Available", "Claimed", "Cleaning"]);

/** Facts about nodes that their records do not contain. */
export type NodeUse = { readonly machines: Machines; readonly pods: PodsByNode; readonly kubeNodes: KubeNodes };

/**
 * Whether the ledger cannot grant the node as a whole: an owner holds it or a part of it, it is occupied, another client cordoned it, or it has pods. The node
 * then takes no demand for a whole node, and is never surplus.
 */
export function isInUse(node: ScaledNode, { machines, pods }: NodeUse): boolean {
  const { kubernetesNode, phase } = node.status;
  if (kubernetesNode === undefined || phase !== "Available") return false;
  const machine = machines.byNode.get(kubernetesNode);
  if (isHeld(machine) || isInParts(machine) || machine?.standing === "OCCUPIED") return true;
  if (isCordonedByOthers(node, machine)) return true;
  return !isFree(machine) && (pods.get(kubernetesNode) ?? []).length > 0;
}

/**
 * Builds nodes for `computeScaling`. Nodes in use count for their pool, and are left unchanged like Claimed ones. A node with pods that the ledger still grants
 * is shared with these pods. A node that the ledger would not grant yet counts as booting since then, until the heartbeat ends it after too long. A released
 * node that the next heartbeat makes Available counts as booting, too, because another would be booted otherwise.
 */
export function buildComputedNodes(
  nodes: readonly ScaledNode[],
  use: NodeUse,
  policies: ReadonlyMap<string, PoolPolicy>,
): ScalingSnapshot["nodes"] {
  return nodes.map((node) => {
    const { phase, kubernetesNode } = node.status;
    const machine = use.machines.byNode.get(kubernetesNode ?? "");
    const pods = use.pods.get(kubernetesNode ?? "") ?? [];
    const joined = SERVING.has(phase) ? findOwnJoined(node, use, policies.get(node.spec.pool)) : undefined;
    if (isInUse(node, use)) {
      const isForeign = machine?.standing === "FOREIGN_USE" && pods.length > 0;
      const status = { ...node.status, phase: "Claimed" as const };
      return { ...node, status, ...(isForeign && { sharedWith: describePods(pods) }) };
    }
    const isGrantable = isFree(machine);
    const room = findRoom(machine);
    const known = { ...(room && { room }), ...(joined && { joined }) };
    if (phase === "Available" && isGrantable && pods.length > 0)
      return { ...node, ...known, sharedWith: describePods(pods) };
    const isReused = policies.get(node.spec.pool)?.reuse === true;
    const isOnItsWay =
      phase === "Available" ? !isGrantable : (phase === "Claimed" || phase === "Cleaning") && isGrantable && isReused;
    if (!isOnItsWay) return { ...node, ...known };
    const unhealthySinceMs = node.status.unhealthySinceMs ?? node.status.phaseSinceMs;
    return { ...node, ...known, status: { ...node.status, phase: "Created" as const, unhealthySinceMs } };
  });
}

/** The part of a machine that can be granted in parts, now or once it is ready. Undefined: its size is unknown. */
function findRoom(machine: Machine | undefined): NodeRoom | undefined {
  if (machine === undefined || machine.allocatable.size === 0) return undefined;
  const { allocatable, free } = machine;
  return { allocatable, free: isFree(machine) || isInParts(machine) ? free : allocatable };
}

/** Undeclared taints make a node unhealthy, and do not restrict demands here. Before the node loses its startup taint, its other taints are unknown. */
function findOwnJoined(
  { status }: ScaledNode,
  use: NodeUse,
  policy: Pick<PoolPolicy, "taints"> = { taints: [] },
): JoinedNode | undefined {
  const joined = findJoined(status.kubernetesNode, use);
  if (joined === undefined) return undefined;
  const isOpen =
    use.machines.byNode.has(joined.name) && use.kubeNodes.byName.get(joined.name)?.hasStartupTaint !== true;
  const undeclared = listUndeclaredTaints(joined.taints, policy);
  return { ...joined, taints: isOpen ? joined.taints.filter((taint) => !undeclared.includes(taint)) : policy.taints };
}

/** Returns undefined if the watcher has not reported the node. */
function findJoined(node: string | undefined, { machines, kubeNodes }: NodeUse): JoinedNode | undefined {
  const known = kubeNodes.byName.get(node ?? "");
  if (known === undefined) return undefined;
  const { taints = [], allocatable } = machines.byNode.get(known.name) ?? {};
  const { name, labels } = known;
  return { name, labels, taints, allocatable: allocatable?.size === 0 ? undefined : allocatable };
}

/** Lists machines of scaled pools that the scaler did not create, and that the ledger could grant now. */
export function buildFreeMachines(
  nodes: readonly ScaledNode[],
  use: NodeUse,
  policies: ReadonlyMap<string, PoolPolicy>,
): FreeMachine[] {
  const { machines, pods } = use;
  const own = new Set(nodes.map(({ status }) => status.kubernetesNode));
  return [...machines.byNode.values()]
    .filter((machine) => isFree(machine) && !own.has(machine.node) && policies.has(machine.pool))
    .map((machine) => ({
      ...buildFreeMachine(machine, use),
      ...(pods.has(machine.node) && { sharedWith: describePods(pods.get(machine.node) ?? []) }),
    }));
}

/**
 * Lists machines of scaled pools, including nodes of the scaler, that the ledger grants only in parts. Excludes ending nodes, and nodes whose records show that
 * they are not ready yet.
 */
export function listMachinesInParts(
  nodes: readonly ScaledNode[],
  use: NodeUse,
  policies: ReadonlyMap<string, PoolPolicy>,
): FreeMachine[] {
  const own = new Map(nodes.map((node) => [node.status.kubernetesNode, node]));
  return [...use.machines.byNode.values()].flatMap((machine) => {
    const node = own.get(machine.node);
    if (!isInParts(machine) || machine.cordoned || !policies.has(machine.pool)) return [];
    if (node !== undefined && (node.spec.terminate !== undefined || !SERVING.has(node.status.phase))) return [];
    const name = node?.name ?? machine.node;
    return [
      { ...buildFreeMachine(machine, use), name, ...(name !== machine.node && { kubernetesNode: machine.node }) },
    ];
  });
}

function buildFreeMachine(machine: Machine, use: NodeUse): FreeMachine {
  const room = findRoom(machine);
  const joined = findJoined(machine.node, use);
  return {
    name: machine.node,
    pool: machine.pool,
    instanceType: undefined,
    zone: undefined,
    spot: undefined,
    gpus: undefined,
    ...(room && { room }),
    ...(joined && { joined }),
  };
}

/** Counts machines of unscaled pools, by pool and zone. */
export function countUnscaledZones(
  { machines, kubeNodes }: NodeUse,
  policies: ReadonlyMap<string, PoolPolicy>,
): ScalingSnapshot["unscaledZones"] {
  const counts = new Map<string, Map<string, number>>();
  for (const { node, pool } of machines.byNode.values()) {
    const zone = kubeNodes.byName.get(node)?.labels[ZONE];
    if (zone === undefined || policies.has(pool)) continue;
    const ofPool = counts.get(pool) ?? new Map<string, number>();
    counts.set(pool, ofPool.set(zone, (ofPool.get(zone) ?? 0) + 1));
  }
  return counts;
}

/** Builds pauses. While boots of one kind fail, that kind counts as short; if its instances do not become nodes, it is short in one pool only. */
export function buildPauses(
  backoffs: Iterable<BootBackoff>,
  bootFailures: readonly BootFailure[],
  nowMs: number,
): Unavailability[] {
  const ofProviders = [...backoffs].map(({ asked, ...rest }) => ({ ...asked, ...rest }));
  const ofPools = bootFailures.map((failure) => ({ ...failure, zone: undefined }));
  return [...ofProviders, ...ofPools].flatMap(({ untilMs, message, ...kind }) => {
    if (untilMs <= nowMs) return [];
    return [{ ...kind, subnet: undefined, message, untilMs }];
  });
}

/**
 * Builds marks that prevent boots while a needed node could already exist: before a provider is first listed, or while the watcher does not report joined
 * nodes.
 */
export function buildUnseen(
  policies: ReadonlyMap<string, PoolPolicy>,
  { listed, areNodesKnown }: { readonly listed: ReadonlySet<string>; readonly areNodesKnown: boolean },
  nowMs: number,
): Unavailability[] {
  return [...policies.values()].flatMap(({ provider, instanceTypes }) =>
    listed.has(provider) && areNodesKnown
      ? []
      : instanceTypes.flatMap(({ name: instanceType }) =>
          [false, true].map((spot) => ({
            provider,
            instanceType,
            spot,
            zone: undefined,
            subnet: undefined,
            message: areNodesKnown
              ? `the instances of ${provider} are not known yet`
              : "the watcher has not reported lately which nodes exist",
            sinceMs: nowMs,
            untilMs: nowMs + 1,
          })),
        ),
  );
}
