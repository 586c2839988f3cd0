import { getPastShare, type PastUse } from "./past-use.ts";
import { getForest, type QueueNode } from "./queue-forest.ts";
import { NO_PAIRS, type PairAmounts, type Queues } from "./queue.ts";
import type { QueueUse } from "./queue-use.ts";
import { compareText, SortedMap } from "./sorted-map.ts";
import type { QueuedRequests, WaitingQueue } from "./waiting-queue.ts";

/** A queue with waiting requests in or below it. Each change of these requests or of the use below it creates a new object, so caches use it as their key. */
export type WaitingTree = {
  readonly node: QueueNode;
  /** Undefined: all requests are in queues below it. */
  readonly requests: QueuedRequests | undefined;
  /** As `QueueUse.tree`. */
  readonly used: PairAmounts;
  /** As `getPastShare`. */
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

/** Returns the trees after a change of the requests or the use of a queue. */
export function withTree(trees: WaitingTrees, queue: string, source: Source): WaitingTrees {
  if (trees.size === 0 && source.queue.byQueue.size === 0) return trees;
  return withPath(trees, getForest(source.queues).get(queue)?.pathFromRoot ?? [], source);
}

/** Returns the trees after a count of past use below this queue; other trees stay the same. */
export function withPastOf(trees: WaitingTrees, parent: string, source: Source): WaitingTrees {
  const node = getForest(source.queues).get(parent);
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
    const pastShare = getPastShare(tree.node, pastUse);
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
  return trees.set(name, { node, requests, used, pastShare: getPastShare(node, source.pastUse), children });
}
