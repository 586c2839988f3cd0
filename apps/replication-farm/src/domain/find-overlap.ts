import { matchesLabels, readLabelSelector } from "@muster/names";
import type { ObservedNode } from "./eligible-nodes.ts";
import type { ReplicaSet } from "./replica-set.ts";

/** An older set, and why both sets would select the same nodes. */
type Overlap = {
  readonly with: string;
  readonly because: "same-selector" | "selects-everything" | "same-nodes";
  /** With same-nodes: examples of the shared nodes. */
  readonly nodes: readonly string[];
};

const MAX_NODES_NAMED = 3;

/**
 * Finds an older enabled set of the same pod id that would select the same nodes. Each set counts only its own replicas, so both would place and remove pods
 * forever. Sets of one rolling update share nodes on purpose.
 */
export function findOverlap(
  set: ReplicaSet,
  others: Iterable<ReplicaSet>,
  nodes: readonly ObservedNode[],
): Overlap | undefined {
  for (const other of others) {
    if (!isOlder(other, set) || !mayOverlap(set, other) || share(set, other)) continue;
    const found = compare(set, other, nodes);
    if (found !== undefined) return { with: other.name, ...found };
  }
  return undefined;
}

/** The nodes that a set yields to older sets of the same pod id. */
export type ContestedNodes = {
  /** Nodes that an older set selects as well, and that set's name. */
  readonly nodes: ReadonlyMap<string, string>;
  /** The nodes that the set must leave. The older set is already on the node, or it lacks a node, can use this one, and has no other usable node. */
  readonly yields: ReadonlySet<string>;
};

/**
 * Sets that were created concurrently, or whose nodes were relabelled, may overlap although each was checked. The older set, by its record and then by its
 * name, gets the shared nodes. Every farm decides the same, so no node alternates between sets.
 */
export function findContestedNodes(
  set: ReplicaSet,
  others: Iterable<ReplicaSet>,
  sights: readonly ObservedNode[],
): ContestedNodes {
  const nodes = new Map<string, string>();
  const yields = new Set<string>();
  // In a rolling update only the update moves replicas.
  if (set.disabled || set.deletion !== undefined || set.rollout !== undefined) return { nodes, yields };
  const known = [set, ...others];
  const everyPlace = new Set(known.flatMap(({ placements }) => placements.map(({ node }) => node)));
  const rivals = known.filter((other) => mayOverlap(set, other));
  for (const other of rivals.filter((rival) => isOlder(rival, set))) {
    const placed = new Set(other.placements.map(({ node }) => node));
    const both = set.placements.map(({ node }) => node).filter((node) => placed.has(node));
    if (share(set, other)) {
      // Both may have taken the same free node concurrently.
      for (const node of both) yields.add(node);
      continue;
    }
    const shared = findShared(set, other, sights);
    for (const { name } of shared) nodes.set(name, nodes.get(name) ?? other.name);
    const takeable = findTakeable(other, rivals, shared);
    const isOurs = new Set(set.placements.map(({ node }) => node));
    // A node that was just left has an ending pod but no placement. The node counts here, because the older set would otherwise take all nodes of this set.
    const waiting = takeable.filter((node) => !everyPlace.has(node)).length;
    const due = Math.max(0, countMissing(other) - waiting);
    for (const node of both) if (shared.some(({ name }) => name === node)) yields.add(node);
    for (const node of takeable.filter((each) => isOurs.has(each) && !placed.has(each)).slice(0, due)) yields.add(node);
  }
  return { nodes, yields };
}

function findShared(set: ReplicaSet, other: ReplicaSet, sights: readonly ObservedNode[]): readonly ObservedNode[] {
  const ours = readLabelSelector("node_selector", set.spec.nodeSelector);
  const theirs = readLabelSelector("node_selector", other.spec.nodeSelector);
  return sights.filter(({ labels }) => matchesLabels(ours, labels) && matchesLabels(theirs, labels));
}

/**
 * Lists the shared nodes where the older set may get a new placement. They accept pods, and no set older than that set selects them. If the older set uses
 * machines, the ledger has granted it the node.
 */
function findTakeable(other: ReplicaSet, rivals: readonly ReplicaSet[], shared: readonly ObservedNode[]): string[] {
  const granted = other.spec.pool === undefined ? undefined : new Set(other.machines.map(({ grant }) => grant?.node));
  const elders = rivals.filter((rival) => isOlder(rival, other) && mayOverlap(other, rival) && !share(other, rival));
  const usable = shared.filter(({ ready, schedulable }) => ready && schedulable).map(({ name }) => name);
  const taken = new Set(elders.flatMap((elder) => findShared(other, elder, shared).map(({ name }) => name)));
  return usable.filter((node) => granted?.has(node) !== false && !taken.has(node)).toSorted();
}

function isOlder(a: ReplicaSet, b: ReplicaSet): boolean {
  return a.createdAtMs < b.createdAtMs || (a.createdAtMs === b.createdAtMs && a.name < b.name);
}

function countMissing({ rollout, spec, placements }: ReplicaSet): number {
  if (rollout !== undefined) return 0;
  return spec.daemon ? Number.POSITIVE_INFINITY : Math.max(0, spec.replicasDesired - placements.length);
}

function mayOverlap(set: ReplicaSet, other: ReplicaSet): boolean {
  if (other.name === set.name || other.disabled || other.deletion !== undefined) return false;
  if (other.spec.podId !== set.spec.podId || isSameRollout(set, other)) return false;
  // Machines of a pool have one owner each.
  return set.spec.pool === undefined || other.spec.pool === undefined;
}

function share(set: ReplicaSet, other: ReplicaSet): boolean {
  return other.sharesWith.includes(set.name) || set.sharesWith.includes(other.name);
}

function compare(
  set: ReplicaSet,
  other: ReplicaSet,
  nodes: readonly ObservedNode[],
): Omit<Overlap, "with"> | undefined {
  const ours = readLabelSelector("node_selector", set.spec.nodeSelector);
  const theirs = readLabelSelector("node_selector", other.spec.nodeSelector);
  if (ours.length === 0 || theirs.length === 0) return { because: "selects-everything", nodes: [] };
  if (JSON.stringify(ours) === JSON.stringify(theirs)) return { because: "same-selector", nodes: [] };
  const shared = nodes.filter(({ labels }) => matchesLabels(ours, labels) && matchesLabels(theirs, labels));
  if (shared.length === 0) return undefined;
  return { because: "same-nodes", nodes: shared.slice(0, MAX_NODES_NAMED).map(({ name }) => name) };
}

function isSameRollout(set: ReplicaSet, other: ReplicaSet): boolean {
  return set.rollout !== undefined && set.rollout === other.rollout;
}
