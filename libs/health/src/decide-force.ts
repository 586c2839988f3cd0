/** What is known of the node of a pod that should be gone. */
export type NodeSeen =
  | { readonly state: "ready" }
  | {
      readonly state: "not-ready";
      /** By the API server's word; its clock may differ from ours. */
      readonly sinceMs: number;
    }
  | { readonly state: "gone" };

export type ForcePolicy = {
  /** A node that is not ready for this long is not waited for any more. */
  readonly nodeLostMs: number;
};

export type ForceReason = "node-gone" | "node-not-ready";

/**
 * Why a pod whose time to end is over may be removed without its node's word; undefined: it may not. A node that is gone is nobody's machine. One that is not ready
 * is given to nobody until it is ready again, and then it ends what the API server does not know; until the time is over it may come back and say so itself. Nothing
 * is forced on a node that answers, or of which nothing is known.
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
