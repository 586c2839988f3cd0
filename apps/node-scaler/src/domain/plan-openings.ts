import type { Phase, ScaledNode } from "./node.ts";
import type { KubeNodes } from "./sightings.ts";

export type OpenStep = {
  readonly do: "open";
  readonly node: string;
  readonly kubeNode: string;
  readonly because: "wanted";
};

const WANTED: ReadonlySet<Phase> = new Set(["Available", "Claimed", "Cleaning"]);

/**
 * Which nodes are opened. Nodes are born closed, and only the node of a record that has seen it ready and is not to end is opened: one that joins late, under a
 * second name, or for a record that is gone stays closed until it ends.
 */
export function planOpenings(nodes: readonly ScaledNode[], { byName }: KubeNodes): OpenStep[] {
  return nodes.flatMap(({ name, spec, status }) => {
    const { phase, kubernetesNode } = status;
    if (kubernetesNode === undefined || spec.terminate !== undefined || !WANTED.has(phase)) return [];
    const kubeNode = byName.get(kubernetesNode);
    if (kubeNode?.unopened !== true) return [];
    return [{ do: "open", node: name, kubeNode: kubernetesNode, because: "wanted" }];
  });
}
