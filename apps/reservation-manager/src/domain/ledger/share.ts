import { isLimited, type QueueNode } from "./queue-forest.ts";
import { computeMaxUseOfTree, computeQuotaTotal, type QuotaWorld } from "./quota.ts";
import { parsePair, type PairAmounts } from "./queue.ts";

/** The dominant resource share of a queue, as an exact fraction. */
export type Share = {
  /** The queue has weight 0 and borrows, so it comes after all queues that have a weight. */
  readonly isLast: boolean;
  readonly numerator: bigint;
  /** 0 with a numerator above 0: the queue borrows although its tree can lend nothing. */
  readonly denominator: bigint;
};

export const NO_SHARE: Share = { isLast: false, numerator: 0n, denominator: 1n };

/**
 * Returns the largest share over all resources. A share is the borrowed amount over the parent's maximum, each summed over all pools, divided by the queue's
 * weight. This is the dominant resource fairness of Ghodsi et al. (2011), applied to borrowing, as in Kueue's fair sharing.
 */
export function computeShare(node: QueueNode, used: PairAmounts, { pools }: Pick<QuotaWorld, "pools">): Share {
  const { parent } = node;
  if (parent === undefined) return NO_SHARE;
  const borrowed = new Map<string, number>();
  for (const [pair, amount] of used) {
    const beyond = amount - computeQuotaTotal(node, pair, pools);
    if (beyond <= 0 || !isLimited(node, pair)) continue;
    const { resource } = parsePair(pair);
    borrowed.set(resource, (borrowed.get(resource) ?? 0) + beyond);
  }
  if (borrowed.size === 0) return NO_SHARE;
  const lendable = lendableOf(node, parent, pools);
  const { weightMilli } = node.queue;
  let most = NO_SHARE;
  for (const [resource, amount] of borrowed) {
    const share: Share = {
      isLast: weightMilli === 0,
      numerator: BigInt(amount) * 1000n,
      denominator: BigInt(lendable.get(resource) ?? 0) * BigInt(weightMilli === 0 ? 1000 : weightMilli),
    };
    if (compareShares(share, most) > 0) most = share;
  }
  return most;
}

/** The share with the queue's past borrowing, in millionths: the order between queues. Preemption compares without it. */
export function withPastShare(share: Share, pastMillionths: number): Share {
  if (pastMillionths === 0) return share;
  const { isLast, numerator, denominator } = share;
  return {
    isLast,
    numerator: numerator * MILLION + BigInt(pastMillionths) * denominator,
    denominator: denominator * MILLION,
  };
}

const MILLION = 1_000_000n;

/** Returns the share in millionths, for display and metrics. Comparisons use the exact fraction. */
export function toMillionths({ numerator, denominator }: Share): number {
  if (numerator === 0n) return 0;
  if (denominator === 0n) return Number.MAX_SAFE_INTEGER;
  const millionths = (numerator * MILLION) / denominator;
  return Number(millionths > BigInt(Number.MAX_SAFE_INTEGER) ? BigInt(Number.MAX_SAFE_INTEGER) : millionths);
}

/** Lower shares first. */
export function compareShares(a: Share, b: Share): number {
  if (a.isLast !== b.isLast) return a.isLast ? 1 : -1;
  const isEndless = ({ numerator, denominator }: Share): boolean => numerator > 0n && denominator === 0n;
  if (isEndless(a) || isEndless(b)) return Number(isEndless(a)) - Number(isEndless(b));
  const difference = a.numerator * b.denominator - b.numerator * a.denominator;
  return difference === 0n ? 0 : difference < 0n ? -1 : 1;
}

const lendables = new WeakMap<QueueNode, { readonly pools: PairAmounts; readonly lendable: PairAmounts }>();

/** Returns, by resource, the parent's maximum summed over all pools, for the pairs that are limited for the queue. */
function lendableOf(node: QueueNode, parent: QueueNode, pools: PairAmounts): PairAmounts {
  const known = lendables.get(node);
  if (known?.pools === pools) return known.lendable;
  const lendable = new Map<string, number>();
  const pairs = node.root.hasPoolsAsQuota ? new Set([...node.root.named, ...pools.keys()]) : node.root.named;
  for (const pair of pairs) {
    if (!isLimited(node, pair)) continue;
    const { resource } = parsePair(pair);
    lendable.set(resource, (lendable.get(resource) ?? 0) + computeMaxUseOfTree(parent, pair, pools));
  }
  lendables.set(node, { pools, lendable });
  return lendable;
}

/** The exact fraction in lowest terms, such as 3/8; 1/0 if the tree can lend nothing. */
export function toFraction({ numerator, denominator }: Share): string {
  const divisor = greatestDivisor(numerator, denominator);
  return `${numerator / divisor}/${denominator / divisor}`;
}

/** Prints the exact fraction and a decimal of up to 6 digits. */
export function printShare(share: Share): string {
  const { numerator, denominator } = share;
  if (denominator === 0n) return "infinite";
  if (numerator % denominator === 0n) return String(numerator / denominator);
  const millionths = (numerator * 1_000_000n) / denominator;
  return `${toFraction(share)} (${Number(millionths) / 1_000_000})`;
}

function greatestDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestDivisor(b, a % b);
}
