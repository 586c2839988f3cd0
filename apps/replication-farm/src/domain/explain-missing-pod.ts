import { describeForeign } from "./explain-nodes.ts";
import { isMakingPod } from "./plan-pods.ts";
import type { SetSnapshot } from "./set-snapshot.ts";

/** Explains why a placement has no pod now: a stable code and a text. */
export function explainMissingPod(
  snapshot: Pick<SetSnapshot, "set" | "rollout" | "nodes">,
  node: string,
): { readonly reason: string; readonly message: string } {
  const { nodes } = snapshot;
  if (nodes !== undefined && !nodes.usable.has(node)) {
    const obstacle = nodes.unusable.get(node);
    return obstacle === undefined
      ? { reason: "NODE_GONE", message: `node ${node} is gone` }
      : { reason: "NODE_UNUSABLE", message: `node ${node} accepts no pod: ${obstacle}` };
  }
  return { reason: "NO_POD", message: explainWait(snapshot, node) };
}

function explainWait(snapshot: Pick<SetSnapshot, "set" | "rollout" | "nodes">, node: string): string {
  if (snapshot.nodes === undefined) return "the watcher is silent, and no pod is created until it reports nodes again";
  if (!isMakingPod(snapshot, node)) return "the set is disabled, and no pod is created until it is enabled";
  const pod = snapshot.nodes.foreign.get(node);
  if (pod !== undefined) return describeForeign(pod, snapshot.set.spec.podId);
  return "the farm creates one soon, or after a pause that grows each time the pod ends";
}
