import { describeLost, findRejection } from "@muster/health";
import { describeCrowding } from "@muster/resources";
import type { ComponentStatus } from "./session.ts";
import type { Snapshot } from "./snapshot.ts";

/** The facts that decide which machines components can use. */
export type MachineFacts = Pick<
  Snapshot,
  "nowMs" | "nodesLost" | "nodesUnschedulable" | "crowded" | "rejections" | "pods"
>;

/** Explains why the component cannot use the machine; undefined if it can. A pod that is scheduled on a healthy machine keeps its machine. */
export function describeLoss(
  { nowMs, nodesLost, nodesUnschedulable, crowded = [], rejections, pods }: MachineFacts,
  { name, podUid }: Pick<ComponentStatus, "name" | "podUid">,
  node: string,
): string | undefined {
  const lost = nodesLost.get(node);
  if (lost !== undefined) return describeLost(node, lost);
  const crowding = crowded.find((each) => each.isLost && each.component === name && each.node === node);
  if (crowding !== undefined) return describeCrowding(crowding);
  const rejection = findRejection(rejections, name, node);
  if (rejection !== undefined && nowMs < rejection.untilMs) return `node ${node} rejected the pod (${rejection.text})`;
  const unschedulable = nodesUnschedulable?.get(node);
  if (unschedulable === undefined || pods.some((pod) => pod.uid === podUid && pod.node === node)) return undefined;
  return describeLost(node, unschedulable);
}
