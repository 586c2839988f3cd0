import type { ScaledNode } from "./node.ts";
import type { Machines } from "./sightings.ts";

/**
 * Machines with their standings for work that tolerates their taints: which work that is, `Acceptance` decides. A node of the scaler with a taint keeps its
 * standing, as it is not healthy.
 */
export function tolerateTaints(machines: Machines, nodes: readonly ScaledNode[]): Machines {
  const own = new Set(nodes.map(({ status }) => status.kubernetesNode));
  const byNode = new Map(
    [...machines.byNode].map(([name, machine]) => {
      const { taints, toleratedStanding: standing } = machine;
      return [name, taints.length === 0 || own.has(name) ? machine : { ...machine, standing }];
    }),
  );
  return { ...machines, byNode };
}
