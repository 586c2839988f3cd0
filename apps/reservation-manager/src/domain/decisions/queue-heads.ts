import { canHoldAll } from "../ledger/can-hold.ts";
import { knownReservation } from "../ledger/ledger.ts";
import type { Machines } from "../ledger/machines.ts";
import { limitedAmounts, withQueuesBelow, type QueueNode } from "../ledger/queue-forest.ts";
import { findShortage, mostOf, totalOf, type PairShortage, type QuotaWorld } from "../ledger/quota.ts";
import type { PoolGang } from "../ledger/reservation.ts";
import { alternativesOf } from "../ledger/topology.ts";
import { comparePlaces, endOf, placeOf, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { poolAmounts } from "./pool-amounts.ts";
import { isPreemptible } from "./is-preemptible.ts";

export function quotaWorldOf({ ledger, machines }: World): QuotaWorld {
  const { tree, later } = ledger.use;
  return { use: tree, later, pools: poolAmounts(machines) };
}

/** The end of the first request in the order of a StrictFIFO queue that can be granted some time; also one that work was preempted for. */
export function findStrictHead(node: QueueNode, world: World): Place | undefined {
  const { ledger } = world;
  const [served] = ledger.beneficiaries
    .map(({ sequence }) => knownReservation(ledger, sequence))
    .filter(({ queue }) => queue === node.queue.name)
    .map((reservation) => ({ ...placeOf(reservation), option: Number.POSITIVE_INFINITY }))
    .sort(comparePlaces);
  const unserved = findUnservedHead(node, world);
  return served === undefined || (unserved !== undefined && comparePlaces(unserved, served) < 0) ? unserved : served;
}

/** The end of the first request in the order of the queue that can be granted some time, without those that work was preempted for. */
export function findUnservedHead(
  node: QueueNode,
  { ledger, machines, attainable = machines }: World,
): Place | undefined {
  const served = new Set(ledger.beneficiaries.map(({ sequence }) => sequence));
  for (const waiting of ledger.queue.byQueue.get(node.queue.name)?.heads.values() ?? []) {
    if (findQuotaTooSmall(node, waiting, machines) !== undefined || !isPossible(waiting, attainable)) continue;
    for (const place of waiting.places.keys()) if (!served.has(place.sequence)) return endOf(place);
  }
  return undefined;
}

/** Whether machines can ever be granted to the gang as the nodes are now. */
export function isPossible(gang: PoolGang, machines: Machines): boolean {
  return alternativesOf(gang, machines).some((needs) => canHoldAll(machines, needs));
}

/** The pair that is short even while nothing is used: the request can never be granted. */
export function findQuotaTooSmall(
  node: QueueNode,
  { needs, ownerKind, notPreemptible }: PoolGang & Partial<Pick<WaitingClass, "ownerKind" | "notPreemptible">>,
  machines: Machines,
): PairShortage | undefined {
  const pools = poolAmounts(machines);
  const asked = limitedAmounts(node, askedAmounts(needs, machines).amounts);
  const mayLeave = ownerKind === undefined || isPreemptible({ owner: { kind: ownerKind }, notPreemptible }, node);
  const isOwnOnly = !mayLeave && mayNotBorrow(node);
  return findShortage(asked, (pair) =>
    isOwnOnly ? Math.min(totalOf(node, pair, pools), mostOf(node, pair, pools)) : mostOf(node, pair, pools),
  );
}

/** Whether work of the queue that does not leave when it is asked to borrows nothing, because another queue of the tree may reclaim. */
export function mayNotBorrow(own: QueueNode): boolean {
  const isOther = (node: QueueNode): boolean => node !== own && node.children.length === 0;
  return [...withQueuesBelow(own.path.at(-1) ?? own)].some((node) => isOther(node) && node.queue.reclaim !== undefined);
}
