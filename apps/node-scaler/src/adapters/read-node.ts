import { labels, type muster } from "@muster/proto";
import type { KubeNode } from "../domain/sightings.ts";

/**
 * A node as the watcher tells of it. Undefined: it is gone, or the mark, which has no name. The record that its label names counts only where no other scaler's name stands
 * beside it: that of another installation is nobody's here, and is left alone.
 */
export function readNode(state: muster.watch.v1.NodeState, scaler: string): KubeNode | undefined {
  const { name, uid, ready, cordoned, unopened, deleted } = state;
  if (name === "" || deleted) return undefined;
  const scaledNode = state.labels[labels.scaledNode];
  const isForeign = (state.labels[labels.scaler] ?? scaler) !== scaler;
  return { name, scaledNode: scaledNode === "" || isForeign ? undefined : scaledNode, uid, ready, cordoned, unopened };
}
