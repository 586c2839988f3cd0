import { canHoldAll } from "../ledger/can-hold.ts";
import type { Machines } from "../ledger/machines.ts";
import { limitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { findShortage, mostOf, type PairShortage, type QuotaWorld } from "../ledger/quota.ts";
import type { PoolGang } from "../ledger/reservation.ts";
import { alternativesOf } from "../ledger/topology.ts";
import type { Place } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { poolAmounts } from "./pool-amounts.ts";

export function quotaWorldOf({ ledger, machines }: World): QuotaWorld {
  return { use: ledger.use.tree, pools: poolAmounts(machines) };
}

/** The first request in the order of a StrictFIFO queue that can be granted some time. */
export function findStrictHead(node: QueueNode, { ledger, machines }: World): Place | undefined {
  for (const [place, waiting] of ledger.queue.byQueue.get(node.queue.name)?.heads.entries() ?? [])
    if (findQuotaTooSmall(node, waiting, machines) === undefined && isPossible(waiting, machines)) return place;
  return undefined;
}

/** Whether machines can ever be granted to the gang as the nodes are now. */
export function isPossible(gang: PoolGang, machines: Machines): boolean {
  return alternativesOf(gang, machines).some((needs) => canHoldAll(machines, needs));
}

/** The pair that is short even while nothing is used: the request can never be granted. */
export function findQuotaTooSmall(node: QueueNode, { needs }: PoolGang, machines: Machines): PairShortage | undefined {
  const pools = poolAmounts(machines);
  const asked = limitedAmounts(node, askedAmounts(needs, machines).amounts);
  return findShortage(asked, (pair) => mostOf(node, pair, pools));
}
