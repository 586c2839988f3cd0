import { computeUseOfParent, type QueueUse } from "./queue-use.ts";
import { mayUse, type QueueNode } from "./queue-forest.ts";
import { ANY_RESOURCE, buildPairKey, parsePair, type PairAmounts } from "./queue.ts";

/** The amounts that the quota of queues is compared with. */
export type QuotaWorld = {
  readonly use: QueueUse["tree"];
  /** As in `QueueUse`. */
  readonly later?: QueueUse["tree"] | undefined;
  /** The sum of the allocatable amounts of the pools' nodes. */
  readonly pools: PairAmounts;
};

/** A pair whose quota does not suffice. */
export type PairShortage = { readonly pair: string; readonly requested: number; readonly available: number };

/**
 * Returns the amount that the queue could use in addition: its unused guarantee, plus its tree's free quota up to its borrowing limit. Negative if use exceeds
 * quota. The formula is that of Kueue's resource nodes.
 */
export function computeFreeQuota(node: QueueNode, pair: string, world: QuotaWorld): number {
  const free = computeFreeQuotaOfTree(node, pair, world);
  return mayUse(node, pair) ? free : Math.min(0, free);
}

/** Returns the amount that the queue and the queues below it could use in addition, all together. */
export function computeFreeQuotaOfTree(node: QueueNode, pair: string, { pools, use, later }: QuotaWorld): number {
  const now = availableOf(node, pair, pools, use);
  return later === undefined ? now : Math.min(now, availableOf(node, pair, pools, later));
}

/**
 * Returns how much must be free for the parent so that `needed` is free for a queue with this use; undefined: no amount suffices.
 * The inverse of `computeFreeQuotaOfTree`.
 */
export function findNeededAbove(
  node: QueueNode,
  pair: string,
  { needed, used, pools }: { readonly needed: number; readonly used: number; readonly pools: PairAmounts },
): number | undefined {
  const total = computeQuotaTotal(node, pair, pools);
  if (node.parent === undefined) return needed > total - used ? undefined : needed;
  const guaranteed = node.guaranteed.get(pair) ?? 0;
  const above = needed - Math.max(0, guaranteed - used);
  return above > shareableOf(node, pair, total, used) ? undefined : above;
}

/** Returns the maximum of the parent's free amount that the queue and the queues below it could use in addition. */
function shareableOf(node: QueueNode, pair: string, total: number, used: number): number {
  const limit = node.queue.quotas.get(pair)?.borrowingLimit ?? Number.POSITIVE_INFINITY;
  return total - (node.guaranteed.get(pair) ?? 0) - computeUseOfParent(node, pair, used) + limit;
}

/** The maximum that work of the queue can ever have: its free amount while nothing is used. */
export function computeMaxUse(node: QueueNode, pair: string, pools: PairAmounts): number {
  return mayUse(node, pair) ? computeMaxUseOfTree(node, pair, pools) : 0;
}

/** Returns the maximum that the queue and those below it can ever use together. */
export function computeMaxUseOfTree(node: QueueNode, pair: string, pools: PairAmounts): number {
  return availableOf(node, pair, pools, undefined);
}

function availableOf(node: QueueNode, pair: string, pools: PairAmounts, use: QueueUse["tree"] | undefined): number {
  const usedBy = (each: QueueNode): number => use?.get(each.queue.name)?.get(pair) ?? 0;
  let free = 0;
  for (const each of node.pathFromRoot) {
    const total = computeQuotaTotal(each, pair, pools);
    const used = usedBy(each);
    if (each.parent === undefined) {
      free = total - used;
      continue;
    }
    const shared = Math.min(free, shareableOf(each, pair, total, used));
    free = Math.max(0, (each.guaranteed.get(pair) ?? 0) - used) + shared;
  }
  return free;
}

/** The quota of the queue with the lent quota of the queues below it. */
export function computeQuotaTotal(node: QueueNode, pair: string, pools: PairAmounts): number {
  const total = node.total.get(pair) ?? 0;
  if (node.parent !== undefined || !node.root.hasPoolsAsQuota || node.root.named.has(pair)) return total;
  return total + (pools.get(pair) ?? pools.get(buildPairKey(parsePair(pair).pool, ANY_RESOURCE)) ?? 0);
}

/** Returns the first pair whose available amount is below the requested one. */
export function findShortage(asked: PairAmounts, availableFor: (pair: string) => number): PairShortage | undefined {
  for (const [pair, requested] of asked) {
    const available = availableFor(pair);
    if (requested > available) return { pair, requested, available: Math.max(0, available) };
  }
  return undefined;
}

/**
 * Returns the level of the first quota that suffices for the request. Level 0 is the quota of the queue with the queues below it, level 1 that of its parent.
 * Above level 0, the queue borrows.
 */
export function computeQuotaLevel(node: QueueNode, asked: PairAmounts, world: QuotaWorld): number {
  let level = 0;
  for (const [pair, amount] of asked) level = Math.max(level, levelOfPair(node, pair, amount, world));
  return level;
}

function levelOfPair(node: QueueNode, pair: string, asked: number, { use, pools }: QuotaWorld): number {
  let change = asked;
  for (const [level, each] of node.path.entries()) {
    const used = use.get(each.queue.name)?.get(pair) ?? 0;
    if (used + change <= computeQuotaTotal(each, pair, pools)) return level;
    change = computeUseOfParent(each, pair, used + change) - computeUseOfParent(each, pair, used);
  }
  return node.path.length;
}
