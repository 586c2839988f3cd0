import type { Taint } from "@muster/resources";
import type { ScaledNode } from "./node.ts";
import type { PoolPolicy } from "./pool.ts";
import type { Machine, Machines } from "./sightings.ts";

/**
 * Returns machines with their standings for work that tolerates their taints; `Acceptance` decides which work that is. A node of the scaler with an undeclared
 * taint keeps its standing, because it is unhealthy.
 */
export function tolerateTaints(
  machines: Machines,
  nodes: readonly ScaledNode[],
  policies: ReadonlyMap<string, PoolPolicy>,
): Machines {
  const own = new Map(nodes.map(({ spec, status }) => [status.kubernetesNode, policies.get(spec.pool)]));
  const isHealthy = ({ node, taints }: Machine): boolean =>
    !own.has(node) || listUndeclaredTaints(taints, own.get(node)).length === 0;
  const byNode = new Map(
    [...machines.byNode].map(([name, machine]) => {
      const { taints, toleratedStanding: standing } = machine;
      return [name, taints.length > 0 && isHealthy(machine) ? { ...machine, standing } : machine];
    }),
  );
  return { ...machines, byNode };
}

/** Formats a taint as kubectl does: `key=value:effect`, without a value `key:effect`. */
export function describeTaint({ key, value = "", effect }: Taint): string {
  return `${key}${value === "" ? "" : `=${value}`}:${effect}`;
}

/** Returns the taints that the pool does not declare; all of them if the pool is no longer scaled. */
export function listUndeclaredTaints(
  taints: readonly Taint[],
  policy: Pick<PoolPolicy, "taints"> | undefined,
): readonly Taint[] {
  const isDeclared = ({ key, value = "", effect }: Taint): boolean =>
    policy?.taints.some((one) => one.key === key && (one.value ?? "") === value && one.effect === effect) === true;
  return taints.filter((taint) => !isDeclared(taint));
}
