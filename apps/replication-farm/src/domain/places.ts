import { buildPodName, type ReplicaPlacement, type ReplicaSet } from "./replica-set.ts";
import type { SetAudit } from "./set-plan.ts";
import type { SetPod, SetSnapshot } from "./set-snapshot.ts";

/**
 * Lists eligible and usable nodes, ordered by name: without a placement of this set, without another set's pod of this pod id, and uncontested by older sets.
 */
export function findCandidateNodes({ set, nodes, taken, contest }: SetSnapshot): string[] {
  const own = new Set(set.placements.map(({ node }) => node));
  return [...(nodes?.eligible ?? [])]
    .filter(
      (node) => nodes?.usable.has(node) === true && !own.has(node) && !taken.has(node) && !contest.nodes.has(node),
    )
    .toSorted();
}

/** Adds a placement to the set. */
export function placeReplica(
  snapshot: Pick<SetSnapshot, "templateHash" | "nowMs">,
  set: ReplicaSet,
  node: string,
): ReplicaSet {
  const placement: ReplicaPlacement = {
    node,
    ordinal: set.nextOrdinal,
    templateHash: snapshot.templateHash,
    sinceMs: snapshot.nowMs,
    reservation: set.machines.find(({ grant }) => grant?.node === node)?.grant?.reservation,
  };
  const placements = [...set.placements, placement].toSorted(compareNodes);
  return { ...set, placements, nextOrdinal: set.nextOrdinal + 1 };
}

/** Gives a placement another ordinal, because its pod name belongs to another owner. */
export function renumberReplica(set: ReplicaSet, ordinal: number): ReplicaSet {
  const placements = set.placements.map((each) =>
    each.ordinal === ordinal ? { ...each, ordinal: set.nextOrdinal } : each,
  );
  return { ...set, placements, nextOrdinal: set.nextOrdinal + 1 };
}

/** Builds the audit of a change of the nodes; it lists all nodes after the change. */
export function auditNodes(set: ReplicaSet): SetAudit {
  const nodes = set.placements.map(({ node }) => node);
  return { eventType: "REPLICATION_CONTROLLER_RETARGET", details: { pod_id: set.spec.podId, nodes } };
}

/** Returns the pod of a placement. A pod with its name on another node belongs to an earlier set of that name, because pods are pinned to their nodes. */
export function findReplicaPod(
  set: Pick<ReplicaSet, "name">,
  pods: SetSnapshot["pods"],
  { node, ordinal }: ReplicaPlacement,
): SetPod | undefined {
  const pod = pods.get(buildPodName(set.name, ordinal));
  return pod?.node === "" || pod?.node === node ? pod : undefined;
}

export function isReady({ set, pods }: SetSnapshot, placement: ReplicaPlacement): boolean {
  const pod = findReplicaPod(set, pods, placement);
  return pod?.health === "READY" && !pod.deleting;
}

export function compareNodes(a: ReplicaPlacement, b: ReplicaPlacement): number {
  return a.node < b.node ? -1 : a.node > b.node ? 1 : 0;
}

/** Counts the nodes of the set; both nodes of a transfer count as one. */
export function countPlaced({ transfer, placements }: ReplicaSet): number {
  const nodes = placements.map(({ node }) => node);
  const isPlacedTwice =
    transfer?.newNode !== undefined && nodes.includes(transfer.oldNode) && nodes.includes(transfer.newNode);
  return isPlacedTwice ? nodes.length - 1 : nodes.length;
}
