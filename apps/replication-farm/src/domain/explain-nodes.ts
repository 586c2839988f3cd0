import { matchesLabels, readLabelSelector } from "@muster/names";
import type { ObservedNode, ObservedNodes } from "./eligible-nodes.ts";
import type { ReplicaSet } from "./replica-set.ts";

/** Ordered by importance, because thousands of nodes may have the code NOT_SELECTED. */
const CODES = ["REPLICA", "FREE", "TAKEN", "CORDONED", "NOT_READY", "NOT_GRANTED", "NOT_SELECTED"] as const;

/**
 * REPLICA: the set has a placement on the node. FREE: the set may get one. TAKEN: another set has a pod of the same pod id on the node. Nodes with another code
 * are not eligible.
 */
export type NodeCode = (typeof CODES)[number];

/** The state of a node for a set, with its reason for people. */
export type NodeVerdict = { readonly node: string; readonly code: NodeCode; readonly message: string };

type Judged = Omit<NodeVerdict, "node">;

/** Returns a verdict for each node, the most important first. `taken`: node to the owner of another placement or pod of the same pod id on it. */
export function explainNodes(
  set: ReplicaSet,
  sights: readonly ObservedNode[],
  nodes: ObservedNodes,
  taken: ReadonlyMap<string, string>,
): NodeVerdict[] {
  const places = set.placements.map(({ node }) => node);
  const gone = places.filter((place) => !sights.some(({ name }) => name === place));
  const judge = (sight: ObservedNode): Judged => {
    const obstacle = findObstacle(set, sight, nodes);
    if (places.includes(sight.name)) return judgePlace(obstacle, nodes.eligible.has(sight.name));
    if (obstacle !== undefined) return obstacle;
    const holder = taken.get(sight.name);
    if (holder === undefined) return { code: "FREE", message: "" };
    return { code: "TAKEN", message: `${holder} runs pod id ${set.spec.podId} there` };
  };
  return [
    ...sights.map((sight) => ({ node: sight.name, ...judge(sight) })),
    ...gone.map((node) => ({ node, code: "REPLICA" as const, message: "the node is gone" })),
  ].toSorted((a, b) => CODES.indexOf(a.code) - CODES.indexOf(b.code) || (a.node < b.node ? -1 : 1));
}

/** Returns why the node accepts no new pod of the set. */
function findObstacle(
  { spec }: ReplicaSet,
  sight: ObservedNode,
  { eligible, foreign }: ObservedNodes,
): Judged | undefined {
  const selector = readLabelSelector("spec.node_selector", spec.nodeSelector);
  if (!matchesLabels(selector, sight.labels))
    return { code: "NOT_SELECTED", message: `its labels do not match ${spec.nodeSelector}` };
  if (!sight.schedulable) return { code: "CORDONED", message: "it is cordoned" };
  if (!sight.ready) return { code: "NOT_READY", message: "it is not ready" };
  if (eligible.has(sight.name)) return undefined;
  const pod = foreign.get(sight.name);
  if (pod !== undefined) return { code: "TAKEN", message: describeForeign(pod, spec.podId) };
  return { code: "NOT_GRANTED", message: `the set does not hold this machine of pool ${spec.pool ?? ""}` };
}

/** Describes a pod that blocks a node for a set and that no farm may remove. */
export function describeForeign(pod: string, podId: string): string {
  return `pod ${pod}, which belongs to no replica set, runs pod id ${podId} there`;
}

function judgePlace(obstacle: Judged | undefined, isEligible: boolean): Judged {
  if (obstacle === undefined) return { code: "REPLICA", message: "" };
  return { code: "REPLICA", message: `${obstacle.message}${isEligible ? ", which is allowed for a while" : ""}` };
}
