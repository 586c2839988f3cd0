import type { NodePhase, ScaledNode } from "./node.ts";
import type { KubeNodes } from "./sightings.ts";

export type StartupTaintStep = {
  readonly kind: "open";
  readonly node: string;
  readonly kubeNode: string;
  readonly because: "wanted";
};

const WANTED: ReadonlySet<NodePhase> = new Set(["Available", "Claimed", "Cleaning"]);

/**
 * Plans which nodes lose the startup taint with which they were created. A node loses it only if its record has observed the node ready and must not end. A
 * node that joins late, under a second name, or without a record keeps the taint until it ends.
 */
export function planStartupTaints(nodes: readonly ScaledNode[], { byName }: KubeNodes): StartupTaintStep[] {
  return nodes.flatMap(({ name, spec, status }) => {
    const { phase, kubernetesNode } = status;
    if (kubernetesNode === undefined || spec.terminate !== undefined || !WANTED.has(phase)) return [];
    const kubeNode = byName.get(kubernetesNode);
    if (kubeNode?.hasStartupTaint !== true) return [];
    return [{ kind: "open", node: name, kubeNode: kubernetesNode, because: "wanted" }];
  });
}
