import { makeNodeCalls } from "../adapters/node-calls.ts";
import { buildNodeTable, describeNodeTrouble } from "../domain/build-node-views.ts";
import { buildRecord } from "../domain/build-record.ts";
import type { ListedNode, ScaledNode } from "../adapters/node-messages.ts";
import { requireListed } from "./require-listed.ts";
import type { ResourceRow } from "./resource.ts";

const MISSING = "`muster nodes` shows those that exist";

/** Nodes that the node scaler creates. `muster nodes` lists them: `get nodes` would promise all nodes of the cluster. */
export const NODE: ResourceRow<ScaledNode> = {
  noun: "node",
  plural: "nodes",
  listedBy: "`muster nodes` lists the nodes of pools, `kubectl get nodes` all of them.",
  missing: MISSING,
  none: "no nodes",
  list: ({ link }) => makeNodeCalls(link).list(undefined),
  get: async ({ link }, name) => requireListed("node", await makeNodeCalls(link).list(undefined), name, MISSING),
  nameOf: ({ name }) => name,
  table: (nodes, { nowMs, style }) => buildNodeTable(nodes, nowMs, style),
  record: buildNodeRecord,
};

export function buildNodeRecord(node: ListedNode): Record<string, unknown> {
  return buildRecord({ ...node, reason: describeNodeTrouble(node) });
}
