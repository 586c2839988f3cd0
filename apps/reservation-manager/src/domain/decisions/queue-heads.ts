import { canHoldAll } from "../ledger/can-hold.ts";
import { getReservation } from "../ledger/ledger.ts";
import type { Machines } from "../ledger/machines.ts";
import { sumLimitedAmounts, withQueuesBelow, type QueueNode } from "../ledger/queue-forest.ts";
import { findShortage, computeMaxUse, computeQuotaTotal, type PairShortage, type QuotaWorld } from "../ledger/quota.ts";
import type { PoolGang } from "../ledger/reservation.ts";
import { listAlternatives } from "../ledger/topology.ts";
import {
  compareQueuePositions,
  getEndOfOptions,
  getQueuePosition,
  type QueuePosition,
  type WaitingClass,
} from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { sumRequestedAmounts } from "./sum-requested-amounts.ts";
import { sumPoolAmounts } from "./sum-pool-amounts.ts";
import { isPreemptible } from "./is-preemptible.ts";

export function buildQuotaWorld({ ledger, machines }: World): QuotaWorld {
  const { tree, later } = ledger.use;
  return { use: tree, later, pools: sumPoolAmounts(machines) };
}

/** Returns the place after all options of the first request of the StrictFIFO queue that can ever be granted, including beneficiaries. */
export function findStrictHead(node: QueueNode, world: World): QueuePosition | undefined {
  const { ledger } = world;
  const [served] = ledger.beneficiaries
    .map(({ sequence }) => getReservation(ledger, sequence))
    .filter(({ queue }) => queue === node.queue.name)
    .map((reservation) => ({ ...getQueuePosition(reservation), option: Number.POSITIVE_INFINITY }))
    .sort(compareQueuePositions);
  const unserved = findUnservedHead(node, world);
  return served === undefined || (unserved !== undefined && compareQueuePositions(unserved, served) < 0)
    ? unserved
    : served;
}

/** Returns the place after all options of the first request of the queue that can ever be granted, without beneficiaries. */
export function findUnservedHead(
  node: QueueNode,
  { ledger, machines, attainable = machines }: World,
): QueuePosition | undefined {
  const served = new Set(ledger.beneficiaries.map(({ sequence }) => sequence));
  for (const waiting of ledger.queue.byQueue.get(node.queue.name)?.heads.values() ?? []) {
    if (findQuotaTooSmall(node, waiting, machines) !== undefined || !isPossible(waiting, attainable)) continue;
    for (const place of waiting.places.keys()) if (!served.has(place.sequence)) return getEndOfOptions(place);
  }
  return undefined;
}

/** Whether the gang can ever be granted machines with the current nodes. */
export function isPossible(gang: PoolGang, machines: Machines): boolean {
  return listAlternatives(gang, machines).some((needs) => canHoldAll(machines, needs));
}

/** Returns the pair that is short even while nothing is used, so the request can never be granted. */
export function findQuotaTooSmall(
  node: QueueNode,
  { needs, ownerKind, notPreemptible }: PoolGang & Partial<Pick<WaitingClass, "ownerKind" | "notPreemptible">>,
  machines: Machines,
): PairShortage | undefined {
  const pools = sumPoolAmounts(machines);
  const asked = sumLimitedAmounts(node, sumRequestedAmounts(needs, machines).amounts);
  const mayLeave = ownerKind === undefined || isPreemptible({ owner: { kind: ownerKind }, notPreemptible }, node);
  const isOwnOnly = !mayLeave && mayNotBorrow(node);
  return findShortage(asked, (pair) =>
    isOwnOnly
      ? Math.min(computeQuotaTotal(node, pair, pools), computeMaxUse(node, pair, pools))
      : computeMaxUse(node, pair, pools),
  );
}

/** Whether work of the queue that may not be preempted must not borrow, because another queue of the tree may reclaim. */
export function mayNotBorrow(own: QueueNode): boolean {
  const isOther = (node: QueueNode): boolean => node !== own && node.children.length === 0;
  return [...withQueuesBelow(own.path.at(-1) ?? own)].some((node) => isOther(node) && node.queue.reclaim !== undefined);
}
