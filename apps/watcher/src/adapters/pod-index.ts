import { isOwned, type ClusterPod } from "../domain/node-use.ts";
import { buildPodKey, type WatchedPod } from "../domain/pod-state.ts";

/** The followed pods by the key of their state and by their node, so that the cost of a change depends only on the changed objects. */
export type PodIndex = {
  /** Returns the pods with this key: at most one per namespace. Pods without owner labels have no key. */
  byKey(key: string): readonly WatchedPod[];
  onNode(node: string): readonly ClusterPod[];
  /** Records that one pod was added (no `before`), removed (no `after`) or changed. */
  change(before: ClusterPod | undefined, after: ClusterPod | undefined): void;
};

export function makePodIndex(): PodIndex {
  const keys = new Map<string, Set<WatchedPod>>();
  const nodes = new Map<string, Set<ClusterPod>>();
  return {
    byKey: (key) => [...(keys.get(key) ?? [])],
    onNode: (node) => [...(nodes.get(node) ?? [])],
    change: (before, after) => {
      if (before !== undefined) {
        if (isOwned(before)) take(keys, buildPodKey(before), before);
        take(nodes, before.node, before);
      }
      if (after !== undefined) {
        if (isOwned(after)) put(keys, buildPodKey(after), after);
        if (after.node !== "") put(nodes, after.node, after);
      }
    },
  };
}

function put<Pod>(index: Map<string, Set<Pod>>, key: string, pod: Pod): void {
  const known = index.get(key);
  if (known === undefined) index.set(key, new Set([pod]));
  else known.add(pod);
}

function take<Pod>(index: Map<string, Set<Pod>>, key: string, pod: Pod): void {
  const known = index.get(key);
  known?.delete(pod);
  if (known?.size === 0) index.delete(key);
}
