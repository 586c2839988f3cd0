import type { ScalingSnapshot } from "./compute.ts";
import type { BootBackoff } from "./decide-boot-outcome.ts";
import type { Unavailability } from "./demand.ts";
import type { FreeMachine } from "./fit.ts";
import type { ScaledNode } from "./node.ts";
import type { PoolPolicy } from "./pool.ts";
import type { Machines, PodsByNode } from "./sightings.ts";

/** What keeps nodes from being bound or stopped although their records do not say so yet. */
export type Use = { readonly machines: Machines; readonly pods: PodsByNode };

/** A node that somebody holds, or on which something runs: it takes no demand, and is no surplus. */
export function isInUse({ status }: ScaledNode, { machines, pods }: Use): boolean {
  const { kubernetesNode, phase } = status;
  if (kubernetesNode === undefined || phase !== "Available") return false;
  const machine = machines.byNode.get(kubernetesNode);
  if (machine?.holder !== undefined || machine?.standing === "OCCUPIED") return true;
  return (pods.get(kubernetesNode) ?? []).length > 0;
}

/** Nodes as `compute` is to see them: those in use count for their pool, and are touched no more than Claimed ones. */
export function buildComputedNodes(nodes: readonly ScaledNode[], use: Use): ScalingSnapshot["nodes"] {
  return nodes.map((node) =>
    isInUse(node, use) ? { ...node, status: { ...node.status, phase: "Claimed" as const } } : node,
  );
}

/** Machines of scaled pools that the scaler did not make, and that the ledger could grant now. */
export function buildFreeMachines(
  nodes: readonly ScaledNode[],
  { machines, pods }: Use,
  policies: ReadonlyMap<string, PoolPolicy>,
): FreeMachine[] {
  const own = new Set(nodes.map(({ status }) => status.kubernetesNode));
  return [...machines.byNode.values()]
    .filter(
      ({ node, pool, standing }) => standing === "FREE" && !own.has(node) && policies.has(pool) && !pods.has(node),
    )
    .map(({ node: name, pool }) => ({
      name,
      pool,
      instanceType: undefined,
      zone: undefined,
      spot: undefined,
      gpus: undefined,
    }));
}

/** While a pool's provider fails it is asked for nothing, as if it were short of everything. */
export function buildPauses(
  policies: ReadonlyMap<string, PoolPolicy>,
  backoffs: ReadonlyMap<string, BootBackoff>,
  nowMs: number,
): Unavailability[] {
  return [...backoffs].flatMap(([provider, { sinceMs, untilMs, message }]) => {
    if (untilMs <= nowMs) return [];
    const types = new Set(
      [...policies.values()]
        .filter((policy) => policy.provider === provider)
        .flatMap(({ instanceTypes }) => instanceTypes.map(({ name }) => name)),
    );
    return [...types].flatMap((instanceType) =>
      [false, true].map((spot) => ({
        provider,
        instanceType,
        spot,
        zone: undefined,
        subnet: undefined,
        message: `${message}; asked again in ${Math.ceil((untilMs - nowMs) / 1000)} s`,
        sinceMs,
        untilMs,
      })),
    );
  });
}
