import { describeLost, isRejection } from "@muster/health";
import { describeCrowding } from "@muster/resources";
import type { ComponentStatus } from "./session.ts";
import type { Snapshot } from "./snapshot.ts";

/** The facts that decide which machines components can use. */
export type MachineFacts = Pick<Snapshot, "nodesLost" | "nodesUnschedulable" | "crowded" | "pods">;

/** Explains why the component cannot use the machine; undefined: it can. A pod that is scheduled on a healthy machine stays there. */
export function describeLoss(
  { nodesLost, nodesUnschedulable, crowded = [], pods }: MachineFacts,
  { name, podUid }: Pick<ComponentStatus, "name" | "podUid">,
  node: string,
): string | undefined {
  const lost = nodesLost.get(node);
  if (lost !== undefined) return describeLost(node, lost);
  const crowding = crowded.find((each) => each.isLost && each.component === name && each.node === node);
  if (crowding !== undefined) return describeCrowding(crowding);
  const own = pods.find((pod) => pod.uid === podUid && pod.node === node);
  if (own?.health === "FAILED" && isRejection(own.reason))
    return `node ${node} rejected the pod (${[own.reason, own.message].filter((text) => text !== "").join(": ")})`;
  const unschedulable = nodesUnschedulable?.get(node);
  if (unschedulable === undefined || own !== undefined) return undefined;
  return describeLost(node, unschedulable);
}
