import { matchesLabels } from "@muster/names";
import { readSelector, type NodeSight } from "./eligible-nodes.ts";
import type { ReplicaSet } from "./replica-set.ts";

/** The set that was there first, and what both would fight over. */
export type Overlap = {
  readonly with: string;
  readonly because: "same-selector" | "selects-everything" | "same-nodes";
  /** With same-nodes: some of them. */
  readonly nodes: readonly string[];
};

const NODES_NAMED_MAX = 3;

/**
 * The older set that an enabled set of the same pod id would take nodes from: each counts only its own, so that both would place, and take away, for ever. Sets of one
 * rolling update share their nodes on purpose.
 */
export function findOverlap(
  set: ReplicaSet,
  others: Iterable<ReplicaSet>,
  nodes: readonly NodeSight[],
): Overlap | undefined {
  for (const other of others) {
    if (!isOlder(other, set) || !mayMeet(set, other) || share(set, other)) continue;
    const found = compare(set, other, nodes);
    if (found !== undefined) return { with: other.name, ...found };
  }
  return undefined;
}

/** What a set leaves to sets of the same pod id that are older. */
export type Contest = {
  /** Nodes that an older set selects, too, and its name. */
  readonly nodes: ReadonlyMap<string, string>;
  /** Those of them that the set is on and has to leave: the older one is there, or is short of so many nodes. */
  readonly yields: ReadonlySet<string>;
};

/**
 * Sets that were made at the same moment, or whose nodes were labelled anew, may overlap though each was checked. The one that was made first, by its record and
 * then by its name, has the nodes that both select. Whoever looks comes to the same, so that none is taken to and fro.
 */
export function findContest(set: ReplicaSet, others: Iterable<ReplicaSet>, sights: readonly NodeSight[]): Contest {
  const nodes = new Map<string, string>();
  const yields = new Set<string>();
  // In an update the sets move at the update's word alone.
  if (set.disabled || set.deletion !== undefined || set.roll !== undefined) return { nodes, yields };
  for (const other of others) {
    if (!isOlder(other, set) || !mayMeet(set, other)) continue;
    const placed = new Set(other.placements.map(({ node }) => node));
    if (share(set, other)) {
      // Both may have taken the same free node at one moment.
      for (const { node } of set.placements) if (placed.has(node)) yields.add(node);
      continue;
    }
    const ours = readSelector("node_selector", set.spec.nodeSelector);
    const theirs = readSelector("node_selector", other.spec.nodeSelector);
    const shared = new Set<string>();
    for (const { name, labels } of sights)
      if (matchesLabels(ours, labels) && matchesLabels(theirs, labels)) shared.add(name);
    for (const node of shared) nodes.set(node, nodes.get(node) ?? other.name);
    const common = set.placements.map(({ node }) => node).filter((node) => shared.has(node));
    const free = common.filter((node) => !placed.has(node));
    for (const node of common) if (placed.has(node)) yields.add(node);
    for (const node of free.slice(0, missingOf(other))) yields.add(node);
  }
  return { nodes, yields };
}

function isOlder(a: ReplicaSet, b: ReplicaSet): boolean {
  return a.createdAtMs < b.createdAtMs || (a.createdAtMs === b.createdAtMs && a.name < b.name);
}

function missingOf({ roll, spec, placements }: ReplicaSet): number {
  if (roll !== undefined) return 0;
  return spec.daemon ? Number.POSITIVE_INFINITY : Math.max(0, spec.replicasDesired - placements.length);
}

function mayMeet(set: ReplicaSet, other: ReplicaSet): boolean {
  if (other.name === set.name || other.disabled || other.deletion !== undefined) return false;
  if (other.spec.podId !== set.spec.podId || isSameRoll(set, other)) return false;
  // Machines of a pool are given to one owner each.
  return set.spec.pool === undefined || other.spec.pool === undefined;
}

function share(set: ReplicaSet, other: ReplicaSet): boolean {
  return other.sharesWith.includes(set.name) || set.sharesWith.includes(other.name);
}

function compare(set: ReplicaSet, other: ReplicaSet, nodes: readonly NodeSight[]): Omit<Overlap, "with"> | undefined {
  const ours = readSelector("node_selector", set.spec.nodeSelector);
  const theirs = readSelector("node_selector", other.spec.nodeSelector);
  if (ours.length === 0 || theirs.length === 0) return { because: "selects-everything", nodes: [] };
  if (JSON.stringify(ours) === JSON.stringify(theirs)) return { because: "same-selector", nodes: [] };
  const shared = nodes.filter(({ labels }) => matchesLabels(ours, labels) && matchesLabels(theirs, labels));
  if (shared.length === 0) return undefined;
  return { because: "same-nodes", nodes: shared.slice(0, NODES_NAMED_MAX).map(({ name }) => name) };
}

function isSameRoll(set: ReplicaSet, other: ReplicaSet): boolean {
  return set.roll !== undefined && set.roll === other.roll;
}
