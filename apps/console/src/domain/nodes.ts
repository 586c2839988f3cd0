import type { NodeRecord } from "../adapters/messages.ts";
import type { Stage } from "./work.ts";

const STAGES: Readonly<Record<string, Stage>> = {
  CREATING: "starting",
  CREATED: "starting",
  AVAILABLE: "waiting",
  CLAIMED: "running",
  CLEANING: "ending",
  TERMINATING: "ending",
  TERMINATED: "cancelled",
};

/** Returns the stage of a node. A node that is being terminated keeps its phase while it is drained. */
export function stageOfNode({ phase, spec }: NodeRecord): Stage {
  if (spec?.terminate && phase !== "TERMINATED") return "ending";
  return STAGES[phase ?? ""] ?? "waiting";
}

/** Returns the owner that holds the node, or the demand for which the scaler creates it. */
export function holderOrDemandOf({ holder, boundTo }: NodeRecord): string {
  if (holder) return `${holder.kind}/${holder.id}`;
  return boundTo;
}

/** Selects the nodes whose rows contain all words. */
export function selectNodes(nodes: readonly NodeRecord[], q: string): readonly NodeRecord[] {
  const words = q
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  return nodes.filter((node) => {
    const { name, phase, spec, troubleCode, trouble, kubernetesNode } = node;
    const shown = [
      name,
      phase,
      spec?.pool,
      spec?.instanceType,
      spec?.zone,
      holderOrDemandOf(node),
      troubleCode,
      trouble,
      kubernetesNode,
    ];
    const text = shown.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
