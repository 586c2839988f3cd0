import { compareText, SortedMap } from "./sorted-map.ts";
import { getForest, sumLimitedAmounts, type QueueNode } from "./queue-forest.ts";
import { NO_PAIRS, type PairAmounts, type Queues } from "./queue.ts";

/** The use of granted work, by queue. */
export type QueueUse = {
  /** By the queue that the work names, whether or not it exists. */
  readonly own: SortedMap<string, PairAmounts>;
  /** By existing queue, the limited use: of its own work, and of the queues below it beyond their guarantees. */
  readonly tree: SortedMap<string, PairAmounts>;
  /** `tree` once preempted work has left and its beneficiaries have been granted; absent: as now. A grant has to fit into both. */
  readonly later?: SortedMap<string, PairAmounts>;
};

export const noUse: QueueUse = { own: SortedMap.empty(compareText), tree: SortedMap.empty(compareText) };

/** Returns the use after a grant in the queue, or with the factor -1 after its release. */
export function withUse(use: QueueUse, queues: Queues, queue: string, amounts: PairAmounts, factor: 1 | -1): QueueUse {
  const node = getForest(queues).get(queue);
  const own = replaceAmounts(use.own, queue, addAmounts(use.own.get(queue) ?? NO_PAIRS, amounts, factor));
  if (node === undefined) return { ...use, own };
  const limited = sumLimitedAmounts(node, amounts);
  const tree = withTreeUse(use.tree, node, limited, factor);
  return { own, tree, ...(use.later && { later: withTreeUse(use.later, node, limited, factor) }) };
}

/** Returns the use of the tree after the queue's use changed by `amounts`, which are those limited for the queue. */
export function withTreeUse(
  tree: QueueUse["tree"],
  node: QueueNode,
  amounts: PairAmounts,
  factor: 1 | -1,
): QueueUse["tree"] {
  let after = tree;
  let change: PairAmounts = factor === 1 ? amounts : addAmounts(NO_PAIRS, amounts, -1);
  for (const each of node.path) {
    if (change.size === 0) break;
    const before = after.get(each.queue.name) ?? NO_PAIRS;
    const next = addAmounts(before, change, 1);
    after = replaceAmounts(after, each.queue.name, next);
    change = changeAbove(each, before, next, change);
  }
  return after;
}

/** The change of the parent's use that follows from the change of a queue's use. */
function changeAbove(node: QueueNode, before: PairAmounts, after: PairAmounts, change: PairAmounts): PairAmounts {
  if (node.guaranteed.size === 0) return change;
  const above = new Map<string, number>();
  for (const pair of change.keys()) {
    const amount =
      computeUseOfParent(node, pair, after.get(pair) ?? 0) - computeUseOfParent(node, pair, before.get(pair) ?? 0);
    if (amount !== 0) above.set(pair, amount);
  }
  return above;
}

/** The part of the use that also counts as its parent's. */
export function computeUseOfParent(node: QueueNode, pair: string, used: number): number {
  return Math.max(0, used - (node.guaranteed.get(pair) ?? 0));
}

/** Recomputes the use by tree after a change of the queues. */
export function rebuildUse(own: QueueUse["own"], queues: Queues): QueueUse {
  const forest = getForest(queues);
  let tree = noUse.tree;
  for (const [queue, amounts] of own.entries()) {
    const node = forest.get(queue);
    if (node !== undefined) tree = withTreeUse(tree, node, sumLimitedAmounts(node, amounts), 1);
  }
  return { own, tree };
}

function addAmounts(amounts: PairAmounts, change: PairAmounts, factor: 1 | -1): PairAmounts {
  const after = new Map(amounts);
  for (const [pair, amount] of change) {
    const next = (after.get(pair) ?? 0) + factor * amount;
    if (next === 0) after.delete(pair);
    else after.set(pair, next);
  }
  return after;
}

function replaceAmounts(
  map: SortedMap<string, PairAmounts>,
  queue: string,
  amounts: PairAmounts,
): SortedMap<string, PairAmounts> {
  return amounts.size === 0 ? map.delete(queue) : map.set(queue, amounts);
}
