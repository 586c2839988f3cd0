import { pastShareOf, type PastUse } from "./past-use.ts";
import { forestOf, type QueueNode } from "./queue-forest.ts";
import { NO_PAIRS, type PairAmounts, type Queues } from "./queue.ts";
import type { QueueUse } from "./queue-use.ts";
import { compareText, SortedMap } from "./sorted-map.ts";
import type { QueuedRequests, WaitingQueue } from "./waiting-queue.ts";

/**
 * A queue with waiting requests in it or below it. Another object after each change of these requests or of what the queue or one below it uses, so that what
 * is known of a tree is kept by it.
 */
export type WaitingTree = {
  readonly node: QueueNode;
  /** Undefined: they are all below it. */
  readonly requests: QueuedRequests | undefined;
  /** As `QueueUse.tree`. */
  readonly used: PairAmounts;
  /** As `pastShareOf`. */
  readonly pastShare: number;
  readonly children: WaitingTrees;
};

/** By name. */
export type WaitingTrees = SortedMap<string, WaitingTree>;

/** The source of the trees. */
type Source = {
  readonly queues: Queues;
  readonly use: Pick<QueueUse, "tree">;
  readonly pastUse: PastUse;
  readonly queue: Pick<WaitingQueue, "byQueue">;
};

export const noTrees: WaitingTrees = SortedMap.empty(compareText);

export function buildTrees(source: Source): WaitingTrees {
  let trees = noTrees;
  for (const queue of source.queue.byQueue.keys()) trees = withTree(trees, queue, source);
  return trees;
}

/** The trees after a change of the requests of a queue or of its use. */
export function withTree(trees: WaitingTrees, queue: string, source: Source): WaitingTrees {
  if (trees.size === 0 && source.queue.byQueue.size === 0) return trees;
  return withPath(trees, forestOf(source.queues).get(queue)?.pathFromRoot ?? [], source);
}

/** The trees after past use was counted between the queues below this one: no other tree changes. */
export function withPastOf(trees: WaitingTrees, parent: string, source: Source): WaitingTrees {
  const node = forestOf(source.queues).get(parent);
  return node === undefined ? trees : withPastBelow(trees, node.pathFromRoot, source.pastUse);
}

function withPastBelow(trees: WaitingTrees, [node, ...below]: readonly QueueNode[], pastUse: PastUse): WaitingTrees {
  if (node !== undefined) {
    const tree = trees.get(node.queue.name);
    if (tree === undefined) return trees;
    return trees.set(node.queue.name, { ...tree, children: withPastBelow(tree.children, below, pastUse) });
  }
  let counted = trees;
  for (const [name, tree] of trees.entries()) {
    const pastShare = pastShareOf(tree.node, pastUse);
    if (pastShare !== tree.pastShare) counted = counted.set(name, { ...tree, pastShare });
  }
  return counted;
}

function withPath(trees: WaitingTrees, path: readonly QueueNode[], source: Source): WaitingTrees {
  const [node, ...below] = path;
  if (node === undefined) return trees;
  const { name } = node.queue;
  const before = trees.get(name)?.children ?? noTrees;
  const children = below.length === 0 ? before : withPath(before, below, source);
  const requests = source.queue.byQueue.get(name);
  if (requests === undefined && children.size === 0) return trees.delete(name);
  const used = source.use.tree.get(name) ?? NO_PAIRS;
  return trees.set(name, { node, requests, used, pastShare: pastShareOf(node, source.pastUse), children });
}
