import type { muster } from "@muster/proto";
import type { View } from "@muster/store";

type NodeState = muster.watch.v1.NodeState;

/**
 * Calls the listener after changes of a node that concern replica sets. Ignores changes of the pods that use a node: they happen with each pod of the cluster,
 * and a pass over all sets would change no set. Returns the function that unsubscribes.
 */
export function onNodeChange(
  nodes: Pick<View<NodeState>, "get" | "entries" | "onChange">,
  listener: () => void,
): () => void {
  const known = new Map(nodes.entries().map(({ key, value }) => [key, value]));
  return nodes.onChange((name) => {
    const before = known.get(name);
    const after = nodes.get(name)?.value;
    if (after === undefined) known.delete(name);
    else known.set(name, after);
    // The mark that all nodes are known has no name. The farm may have waited for the mark.
    if (after?.name === "" || !isSame(before, after)) listener();
  });
}

function isSame(one: NodeState | undefined, other: NodeState | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  const sameState = one.ready === other.ready && one.schedulable === other.schedulable;
  const sameNode = one.uid === other.uid && one.deleted === other.deleted;
  return sameState && sameNode && sameLabels(one.labels, other.labels);
}

function sameLabels(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
}
