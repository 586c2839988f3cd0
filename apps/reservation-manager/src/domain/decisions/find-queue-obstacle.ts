import type { Ledger } from "../ledger/ledger.ts";
import type { PoolGang } from "../ledger/reservation.ts";
import { comparePlaces, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { forestOf, limitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { pairOf, type PairAmounts } from "../ledger/queue.ts";
import { findShortage, freeOf, levelOf, type PairShortage } from "../ledger/quota.ts";
import { useWithKept, type HeldQuota } from "./queue-bounds.ts";
import { findQuotaTooSmall, findStrictHead, quotaWorldOf } from "./queue-heads.ts";

/**
 * QUEUE_UNKNOWN: the queue is missing. QUEUE_HELD: it admits nothing (`QueueProblem`). BEHIND_STRICT_HEAD: another request of the queue is first.
 * WAITING_FOR_QUOTA: quota and what may be borrowed do not suffice. KEPT_FOR_OWNER: what would be borrowed is kept for a queue that waits for its own.
 */
export type QueueObstacle =
  | { readonly code: "QUEUE_UNKNOWN" | "QUEUE_HELD" | "BEHIND_STRICT_HEAD"; readonly queue: string }
  | { readonly code: "WAITING_FOR_QUOTA" | "KEPT_FOR_OWNER"; readonly queue: string; readonly quota: QuotaShortage };

/** The resource that is short. */
export type QuotaShortage = {
  readonly pool: string;
  readonly resource: string;
  readonly requested: number;
  readonly available: number;
};

/** What is asked for, and in which queue. */
export type QueueDemand = PoolGang & Pick<WaitingClass, "queue">;

/** What the queue of the demand has against a grant at this place now; undefined: nothing, or the demand has no queue. */
export function findQueueObstacle(demand: QueueDemand, place: Place, world: World): QueueObstacle | undefined {
  const { queue } = demand;
  const node = queue === undefined ? undefined : forestOf(world.ledger.queues).get(queue);
  if (queue !== undefined && node?.problem === undefined && isStrictQueue(queue, world.ledger) && node !== undefined) {
    const strictHead = findStrictHead(node, world);
    const isBehind = strictHead !== undefined && comparePlaces(strictHead, place) < 0;
    if (isBehind && findQuotaTooSmall(node, demand, world.machines) === undefined)
      return { code: "BEHIND_STRICT_HEAD", queue };
  }
  return findQuotaShortage(demand, world);
}

/** As `findQueueObstacle`, whatever the order in the queue. */
export function findQuotaShortage({ queue, needs }: QueueDemand, world: World): QueueObstacle | undefined {
  if (queue === undefined) return undefined;
  const node = forestOf(world.ledger.queues).get(queue);
  if (node === undefined) return { code: "QUEUE_UNKNOWN", queue };
  if (node.problem !== undefined) return { code: "QUEUE_HELD", queue };
  return findQuotaObstacle(node, askedAmounts(needs, world.machines).amounts, world);
}

export function isStrictQueue(queue: string, { queues }: Pick<Ledger, "queues">): boolean {
  return queues.get(queue)?.strategy === "StrictFIFO";
}

/** What is kept for the first request of a queue that has waited too long and that the queue's own quota suffices for. */
export type QuotaHolds = (queue: string) => HeldQuota | undefined;

/** The quota that is kept for another request of the queue. What is not kept suffices for requests before that one. */
export function findHeldQuota(
  { queue, needs }: QueueDemand,
  place: Place,
  world: World,
  quotas: QuotaHolds,
): QueueObstacle | undefined {
  const held = queue === undefined ? undefined : quotas(queue);
  if (queue === undefined || held === undefined || comparePlaces(held.place, place) >= 0) return undefined;
  const node = forestOf(world.ledger.queues).get(queue);
  if (node === undefined) return undefined;
  const quotaWorld = quotaWorldOf(world);
  const asked = limitedAmounts(node, askedAmounts(needs, world.machines).amounts);
  const short = findShortage(asked, (pair) => freeOf(node, pair, quotaWorld) - (held.asked.get(pair) ?? 0));
  return short && { code: "WAITING_FOR_QUOTA", queue, quota: toQuotaShortage(short) };
}

/** As `findQueueObstacle`, for the use of machines that were chosen. */
export function findUseObstacle(queue: string, use: PairAmounts, world: World): QueueObstacle | undefined {
  const node = forestOf(world.ledger.queues).get(queue);
  return node === undefined ? undefined : findQuotaObstacle(node, use, world);
}

function findQuotaObstacle(node: QueueNode, amounts: PairAmounts, world: World): QueueObstacle | undefined {
  const { name: queue } = node.queue;
  const asked = limitedAmounts(node, amounts);
  const quotas = quotaWorldOf(world);
  const short = findShortage(asked, (pair) => freeOf(node, pair, quotas));
  if (short !== undefined) return { code: "WAITING_FOR_QUOTA", queue, quota: toQuotaShortage(short) };
  if (levelOf(node, asked, quotas) === 0) return undefined;
  const kept = { ...quotas, use: useWithKept(node, world) };
  const shortOfKept = findShortage(asked, (pair) => freeOf(node, pair, kept));
  return shortOfKept && { code: "KEPT_FOR_OWNER", queue, quota: toQuotaShortage(shortOfKept) };
}

function toQuotaShortage({ pair, requested, available }: PairShortage): QuotaShortage {
  return { ...pairOf(pair), requested, available };
}

/** How far from its queue the quota is that suffices for the demand; 0 without a queue. */
export function levelOfDemand({ queue, needs }: QueueDemand, world: World): number {
  const node = queue === undefined ? undefined : forestOf(world.ledger.queues).get(queue);
  if (node === undefined) return 0;
  return levelOf(node, limitedAmounts(node, askedAmounts(needs, world.machines).amounts), quotaWorldOf(world));
}
