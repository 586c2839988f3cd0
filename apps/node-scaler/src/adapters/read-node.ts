import { labels, type muster } from "@muster/proto";
import { sumUse } from "@muster/resources";
import type { KubeNode } from "../domain/sightings.ts";

/**
 * Reads a node as the watcher reports it; undefined if the node is gone, or the state is the nameless mark. The record name of a node with another scaler's
 * name is ignored, because the node belongs to another installation.
 */
export function readNode(state: muster.watch.v1.NodeState, scaler: string): KubeNode | undefined {
  const { name, uid, ready, cordoned, unopened, deleted, overhead } = state;
  if (name === "" || deleted) return undefined;
  const scaledNode = state.labels[labels.scaledNode];
  const isForeign = (state.labels[labels.scaler] ?? scaler) !== scaler;
  return {
    name,
    scaledNode: scaledNode === "" || isForeign ? undefined : scaledNode,
    uid,
    ready,
    cordoned,
    labels: state.labels,
    hasStartupTaint: unopened,
    overhead: sumUse(new Map(Object.entries(overhead?.requests ?? {})), overhead?.pods ?? 0),
  };
}
