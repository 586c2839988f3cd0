import { nearestName } from "@muster/documents";
import { nodeCalls } from "../adapters/node-calls.ts";
import { CommandError } from "../command-error.ts";
import { buildNodeTable, troubleOf } from "../domain/build-node-views.ts";
import { buildRecord } from "../domain/build-record.ts";
import { EXIT } from "../domain/decide-exit.ts";
import type { ScaledNode } from "../domain/scaled-node.ts";
import type { Resource } from "./resource.ts";

/** Nodes that the node scaler creates. `muster nodes` lists them: `get nodes` would promise all nodes of the cluster. */
export const NODE: Resource<ScaledNode> = {
  noun: "node",
  plural: "nodes",
  listedBy: "`muster nodes` lists the nodes that Muster makes, `kubectl get nodes` all of them.",
  none: "no nodes",
  list: ({ link }) => nodeCalls(link).list(undefined),
  get: async ({ link }, name) => {
    const nodes = await nodeCalls(link).list(undefined);
    const found = nodes.find((node) => node.name === name);
    if (found !== undefined) return found;
    const names = nodes.map((node) => node.name);
    const near = nearestName(name, names);
    throw new CommandError(EXIT.refused, `node ${name} does not exist`, {
      hint: near === undefined ? "`muster nodes` shows those that exist" : `did you mean "${near}"?`,
    });
  },
  nameOf: ({ name }) => name,
  table: (nodes, { nowMs, style }) => buildNodeTable(nodes, nowMs, style),
  record: (node) => buildRecord({ ...node, reason: troubleOf(node) }),
};
