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
    if (other.name === set.name || other.disabled || other.deletion !== undefined) continue;
    if (other.spec.podId !== set.spec.podId || isSameRoll(set, other)) continue;
    const found = compare(set, other, nodes);
    if (found !== undefined) return { with: other.name, ...found };
  }
  return undefined;
}

function compare(set: ReplicaSet, other: ReplicaSet, nodes: readonly NodeSight[]): Omit<Overlap, "with"> | undefined {
  // Machines of a pool are given to one owner each.
  if (set.spec.pool !== undefined && other.spec.pool !== undefined) return undefined;
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
