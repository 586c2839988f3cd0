/** The known state of the node of a terminating pod. */
export type NodeSeen =
  | { readonly state: "ready" }
  | {
      readonly state: "not-ready";
      /** Timestamp by the clock of the API server, which may differ from ours. */
      readonly sinceMs: number;
    }
  | { readonly state: "gone" };

export type ForcePolicy = {
  /** A node counts as missing after it was not ready for this long. */
  readonly nodeLostMs: number;
};

export type ForceReason = "node-gone" | "node-not-ready";

/**
 * Returns why a pod past its grace period may be removed without an answer of its node; undefined: it may not. A missing node runs nothing. A node that is not
 * ready gets no work until it is ready, and then ends pods that the API server has removed. Until `nodeLostMs` it may recover and report the end itself. No pod
 * is forced off a node that answers, or whose state is unknown.
 */
export function decideForce(node: NodeSeen | undefined, nowMs: number, policy: ForcePolicy): ForceReason | undefined {
  switch (node?.state) {
    case "gone":
      return "node-gone";
    case "not-ready":
      return nowMs - node.sinceMs >= policy.nodeLostMs ? "node-not-ready" : undefined;
    case "ready":
    case undefined:
      return undefined;
  }
}
