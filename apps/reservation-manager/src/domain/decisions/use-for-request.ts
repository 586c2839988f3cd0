import { getReservation } from "../ledger/ledger.ts";
import { isLimited, sumLimitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { computeQuotaTotal } from "../ledger/quota.ts";
import { compareQueuePositions, getQueuePosition, type QueuePosition } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { buildHeadSummaries } from "./head-summaries.ts";
import { isPossible } from "./queue-heads.ts";
import { sumPoolAmounts } from "./sum-pool-amounts.ts";
import { sumRequestedAmounts } from "./sum-requested-amounts.ts";

/** A request and the limited amounts that it requests of its queue. */
type Request = { readonly node: QueueNode; readonly asked: PairAmounts; readonly place: QueuePosition };

/**
 * Returns the use with which the quota and the share of a request are compared. The first request that the queue's own quota covers keeps this quota, even if
 * later requests of the queue pass it. Work that passed it and uses the quota counts as borrowing: the queue with the request does not exceed its quota. `use`:
 * the present use, or the use once preempted work has left.
 */
export function getUseForRequest(
  request: Request,
  world: World,
  use: QueueUse["tree"] = world.ledger.use.tree,
): QueueUse["tree"] {
  const { node, place } = request;
  const excess = findExcess(request, world, use);
  if (excess.size === 0 || findOwnHead(node, world)?.place.sequence !== place.sequence) return use;
  return isOfPassing(excess, request, world, use) ? withTreeUse(use, node, excess, -1) : use;
}

/** Finds the queue's request for which `getUseForRequest` reduces the use, and the reduction; undefined: the queue has none. */
export function findPassedHead(
  node: QueueNode,
  world: World,
  use: QueueUse["tree"],
): (Request & { readonly excess: PairAmounts; readonly createdAtMs: number }) | undefined {
  const head = findOwnHead(node, world);
  if (head === undefined) return undefined;
  const request = { node, ...head };
  const excess = findExcess(request, world, use);
  if (excess.size === 0 || !isOfPassing(excess, request, world, use)) return undefined;
  return { ...request, excess, createdAtMs: head.place.createdAtMs };
}

/** The amounts by which the queue would exceed its quota with the request; none if the quota does not even cover the request alone. */
function findExcess({ node, asked }: Request, { machines }: World, use: QueueUse["tree"]): PairAmounts {
  const pools = sumPoolAmounts(machines);
  const used = use.get(node.queue.name) ?? NO_PAIRS;
  const excess = new Map<string, number>();
  for (const [pair, amount] of asked) {
    const total = computeQuotaTotal(node, pair, pools);
    if (amount > total) return NO_PAIRS;
    const beyond = (used.get(pair) ?? 0) + amount - total;
    if (beyond > 0) excess.set(pair, beyond);
  }
  return excess;
}

/** Finds the first request of the queue that its own quota covers, used or not. */
function findOwnHead(
  node: QueueNode,
  world: World,
): { readonly place: QueuePosition; readonly asked: PairAmounts } | undefined {
  const { ledger, machines, attainable = machines } = world;
  const heads = ledger.queue.byQueue.get(node.queue.name)?.heads;
  if (heads === undefined || node.problem !== undefined) return undefined;
  const pools = sumPoolAmounts(machines);
  const covers = (asked: PairAmounts): boolean =>
    [...asked].every(([pair, amount]) => !isLimited(node, pair) || amount <= computeQuotaTotal(node, pair, pools));
  for (const [place, waiting] of heads.search(buildHeadSummaries(world), ({ needed }) => covers(needed)))
    if (isPossible(waiting, attainable))
      return { place, asked: sumLimitedAmounts(node, sumRequestedAmounts(waiting.needs, machines).amounts) };
  return undefined;
}

/** Whether work that passed the request uses at least these amounts: work behind it in its queue that was granted while it waited. */
function isOfPassing(
  amounts: PairAmounts,
  { node, place }: Request,
  { ledger }: World,
  use: QueueUse["tree"],
): boolean {
  const missing = new Map(amounts);
  for (const { priority, grantedAtMs, sequence } of ledger.admitted.get(node.queue.name)?.keys() ?? []) {
    if (priority > place.priority || grantedAtMs <= place.createdAtMs) continue;
    const passing = getReservation(ledger, sequence);
    if (compareQueuePositions(getQueuePosition(passing), place) < 0) continue;
    if (use !== ledger.use.tree && ledger.leaving.has(sequence)) continue;
    for (const [pair, amount] of passing.grant?.use ?? []) {
      const left = (missing.get(pair) ?? 0) - amount;
      if (left > 0) missing.set(pair, left);
      else missing.delete(pair);
    }
    if (missing.size === 0) return true;
  }
  return false;
}
