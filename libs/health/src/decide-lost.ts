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
 * Why a node is lost to work that holds it; undefined: it is not. A node is lost when it is gone, has been not ready for too long, or has been unschedulable
 * for as long while no pod of the work is on it. The wait gives the node scaler time to uncordon a node that it finds held. `undefined`: no such node is
 * known.
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

/** Whether pods can be started on a node now; `undefined`: no such node is known. */
export function isUsable(node: NodeFact | undefined): boolean {
  return node !== undefined && !node.deleted && node.ready && node.schedulable;
}

const LOST: Readonly<Record<LostReason, string>> = {
  gone: "is gone",
  "not-ready": "is not ready",
  unschedulable: "is cordoned or tainted",
};

/** "node worker-3 is gone". */
export function describeLost(node: string, because: LostReason): string {
  return `node ${node} ${LOST[because]}`;
}
