/** A node as the watcher last published it. */
export type NodeFact = {
  readonly ready: boolean;
  /** Neither cordoned nor tainted NoSchedule or NoExecute. */
  readonly schedulable: boolean;
  readonly deleted: boolean;
  readonly observedAtMs: number;
};

/** `unschedulable`: cordoned or tainted. */
export type LostReason = "gone" | "not-ready" | "unschedulable";

/**
 * Returns why a node is lost to the work that holds it; undefined: it is not. A node is lost when it is missing or has been not ready for too long. A node
 * without a pod of the work is also lost when it has been unschedulable for as long. The wait lets the node scaler uncordon a node that is held. An undefined
 * node counts as missing.
 */
export function decideLost(
  node: NodeFact | undefined,
  {
    nowMs,
    lostAfterMs,
    occupied,
  }: { readonly nowMs: number; readonly lostAfterMs: number; readonly occupied: boolean },
): LostReason | undefined {
  if (node === undefined || node.deleted) return "gone";
  if (nowMs - node.observedAtMs < lostAfterMs) return undefined;
  if (!node.ready) return "not-ready";
  return node.schedulable || occupied ? undefined : "unschedulable";
}

/** Whether pods can start on the node now; `undefined`: the node is unknown. */
export function isUsable(node: NodeFact | undefined): boolean {
  return node !== undefined && !node.deleted && node.ready && node.schedulable;
}

const LOST: Readonly<Record<LostReason, string>> = {
  gone: "is gone",
  "not-ready": "is not ready",
  unschedulable: "is cordoned or tainted",
};

/** Describes a lost node with the reason: "node worker-3 is gone". */
export function describeLost(node: string, because: LostReason): string {
  return `node ${node} ${LOST[because]}`;
}
