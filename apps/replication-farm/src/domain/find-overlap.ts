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
  /** Those of them that the set is on and has to leave: the older one is there, too, or is short of a node, can take this one, and has no other that it can take. */
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
  const known = [set, ...others];
  const everyPlace = new Set(known.flatMap(({ placements }) => placements.map(({ node }) => node)));
  const rivals = known.filter((other) => mayMeet(set, other));
  for (const other of rivals.filter((rival) => isOlder(rival, set))) {
    const placed = new Set(other.placements.map(({ node }) => node));
    const both = set.placements.map(({ node }) => node).filter((node) => placed.has(node));
    if (share(set, other)) {
      // Both may have taken the same free node at one moment.
      for (const node of both) yields.add(node);
      continue;
    }
    const shared = findShared(set, other, sights);
    for (const { name } of shared) nodes.set(name, nodes.get(name) ?? other.name);
    const takeable = findTakeable(other, rivals, shared);
    const isOurs = new Set(set.placements.map(({ node }) => node));
    // What was left a moment ago still has a pod that ends there, and no place: to leave another one as well would cost this set all of them.
    const waiting = takeable.filter((node) => !everyPlace.has(node)).length;
    const due = Math.max(0, missingOf(other) - waiting);
    for (const node of both) if (shared.some(({ name }) => name === node)) yields.add(node);
    for (const node of takeable.filter((each) => isOurs.has(each) && !placed.has(each)).slice(0, due)) yields.add(node);
  }
  return { nodes, yields };
}

function findShared(set: ReplicaSet, other: ReplicaSet, sights: readonly NodeSight[]): readonly NodeSight[] {
  const ours = readSelector("node_selector", set.spec.nodeSelector);
  const theirs = readSelector("node_selector", other.spec.nodeSelector);
  return sights.filter(({ labels }) => matchesLabels(ours, labels) && matchesLabels(theirs, labels));
}

/** Which of the shared nodes the older set may get a new place on: they take pods, it holds them where they are machines, and no set that is older still selects them. */
function findTakeable(other: ReplicaSet, rivals: readonly ReplicaSet[], shared: readonly NodeSight[]): string[] {
  const granted = other.spec.pool === undefined ? undefined : new Set(other.machines.map(({ grant }) => grant?.node));
  const elders = rivals.filter((rival) => isOlder(rival, other) && mayMeet(other, rival) && !share(other, rival));
  const usable = shared.filter(({ ready, schedulable }) => ready && schedulable).map(({ name }) => name);
  const taken = new Set(elders.flatMap((elder) => findShared(other, elder, shared).map(({ name }) => name)));
  return usable.filter((node) => granted?.has(node) !== false && !taken.has(node)).toSorted();
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
