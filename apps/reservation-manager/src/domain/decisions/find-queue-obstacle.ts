import type { Ledger } from "../ledger/ledger.ts";
import type { PoolGang, PoolNeed } from "../ledger/reservation.ts";
import { compareQueuePositions, type QueuePosition, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { sumRequestedAmounts } from "./sum-requested-amounts.ts";
import { getForest, sumLimitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { parsePair, type PairAmounts } from "../ledger/queue.ts";
import {
  findShortage,
  computeFreeQuota,
  computeQuotaLevel,
  computeQuotaTotal,
  type PairShortage,
  type QuotaWorld,
} from "../ledger/quota.ts";
import { isPreemptible } from "./is-preemptible.ts";
import { useWithKept, type HeldQuota } from "./queue-bounds.ts";
import { withTreeUse } from "../ledger/queue-use.ts";
import { getUseForRequest } from "./use-for-request.ts";
import { findQuotaTooSmall, findStrictHead, mayNotBorrow, buildQuotaWorld } from "./queue-heads.ts";

/**
 * QUEUE_UNKNOWN: the queue is missing. QUEUE_HELD: it admits nothing (`QueueProblem`). BEHIND_STRICT_HEAD: another request of the StrictFIFO queue is first.
 * WAITING_FOR_QUOTA: own and borrowable quota do not suffice. KEPT_FOR_OWNER: borrowable quota is kept for a queue that waits for its own.
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

/** The requested machines and their queue. */
export type QueueDemand = PoolGang & Pick<WaitingClass, "ownerKind" | "queue" | "notPreemptible">;

/** Returns the queue's obstacle to a grant at this place now; undefined: none, or the demand has no queue. */
export function findQueueObstacle(demand: QueueDemand, place: QueuePosition, world: World): QueueObstacle | undefined {
  const { queue } = demand;
  const node = queue === undefined ? undefined : getForest(world.ledger.queues).get(queue);
  if (queue !== undefined && node?.problem === undefined && isStrictQueue(queue, world.ledger) && node !== undefined) {
    const strictHead = findStrictHead(node, world);
    const isBehind = strictHead !== undefined && compareQueuePositions(strictHead, place) < 0;
    if (isBehind && findQuotaTooSmall(node, demand, world.machines) === undefined)
      return { code: "BEHIND_STRICT_HEAD", queue };
  }
  return findQuotaShortage(demand, place, world);
}

/** As `findQueueObstacle`, but ignores the order in the queue. */
export function findQuotaShortage(demand: QueueDemand, place: QueuePosition, world: World): QueueObstacle | undefined {
  return findShortageAlone(demand, world) ?? findKeptQuota(demand, place, world);
}

/** As `findQuotaShortage`, but ignores quota that is kept for others. */
export function findShortageAlone(demand: QueueDemand, world: World): QueueObstacle | undefined {
  const { ownerKind, queue, needs, notPreemptible } = demand;
  if (queue === undefined) return undefined;
  const node = getForest(world.ledger.queues).get(queue);
  if (node === undefined) return { code: "QUEUE_UNKNOWN", queue };
  if (node.problem !== undefined) return { code: "QUEUE_HELD", queue };
  const asked = sumLimitedAmounts(node, sumRequestedAmounts(needs, world.machines).amounts);
  const short = findUnavailable(node, asked, buildQuotaWorld(world));
  if (short !== undefined || isPreemptible({ owner: { kind: ownerKind }, notPreemptible }, node)) return short;
  return findUnreclaimable(node, asked, world);
}

function findKeptQuota({ queue, needs }: QueueDemand, place: QueuePosition, world: World): QueueObstacle | undefined {
  const node = queue === undefined ? undefined : getForest(world.ledger.queues).get(queue);
  return (
    node &&
    findKeptAmounts(node, sumLimitedAmounts(node, sumRequestedAmounts(needs, world.machines).amounts), place, world)
  );
}

/** Work that may not be preempted must not borrow quota that another queue of the tree may reclaim. */
function findUnreclaimable(node: QueueNode, asked: PairAmounts, world: World): QueueObstacle | undefined {
  if (!mayNotBorrow(node)) return undefined;
  const { queue } = node;
  const { use, pools } = buildQuotaWorld(world);
  const used = use.get(queue.name);
  const borrowed = findShortage(asked, (pair) => computeQuotaTotal(node, pair, pools) - (used?.get(pair) ?? 0));
  return borrowed && { code: "KEPT_FOR_OWNER", queue: queue.name, quota: toQuotaShortage(borrowed) };
}

export function isStrictQueue(queue: string, { queues }: Pick<Ledger, "queues">): boolean {
  return queues.get(queue)?.strategy === "StrictFIFO";
}

/** Returns the quota held for the first overdue request of the queue that its own quota covers. */
export type QuotaHolds = (queue: string) => HeldQuota | undefined;

/** Returns a shortage that quota held for another request of the queue causes. It affects only requests behind that request. */
export function findHeldQuota(
  { queue, needs }: QueueDemand,
  place: QueuePosition,
  world: World,
  quotas: QuotaHolds,
): QueueObstacle | undefined {
  const held = queue === undefined ? undefined : quotas(queue);
  if (queue === undefined || held === undefined || compareQueuePositions(held.place, place) >= 0) return undefined;
  const node = getForest(world.ledger.queues).get(queue);
  if (node === undefined) return undefined;
  const quotaWorld = buildQuotaWorld(world);
  const asked = sumLimitedAmounts(node, sumRequestedAmounts(needs, world.machines).amounts);
  const short = findShortage(asked, (pair) => computeFreeQuota(node, pair, quotaWorld) - (held.asked.get(pair) ?? 0));
  return short && { code: "WAITING_FOR_QUOTA", queue, quota: toQuotaShortage(short) };
}

/** The request that machines are kept for: its needs, and whether it borrows. */
type KeptMachines = {
  readonly needs: readonly PoolNeed[];
  readonly queue: string | undefined;
  readonly isBorrowing: boolean;
};

/** Returns a borrower's shortage beside the quota of the request that machines are kept for. Without that quota, the kept machines would be useless. */
export function findQuotaOfHold(
  demand: QueueDemand,
  place: QueuePosition,
  world: World,
  hold: KeptMachines | undefined,
): QueueObstacle | undefined {
  const { queue, needs } = demand;
  if (hold?.queue === undefined || queue === undefined || hold.isBorrowing || hold.queue === queue) return undefined;
  const forest = getForest(world.ledger.queues);
  const [node, owner] = [forest.get(queue), forest.get(hold.queue)];
  if (node === undefined || owner === undefined || node.root !== owner.root) return undefined;
  if (computeDemandLevel(demand, place, world) === 0) return undefined;
  const quotas = buildQuotaWorld(world);
  const ofHold = sumLimitedAmounts(owner, sumRequestedAmounts(hold.needs, world.machines).amounts);
  const beside = { pools: quotas.pools, use: withTreeUse(quotas.use, owner, ofHold, 1) };
  const asked = sumLimitedAmounts(node, sumRequestedAmounts(needs, world.machines).amounts);
  const short = findShortage(asked, (pair) => computeFreeQuota(node, pair, beside));
  return short && { code: "KEPT_FOR_OWNER", queue, quota: toQuotaShortage(short) };
}

/** As `findQueueObstacle`, for the amounts of chosen machines. */
export function findUseObstacle(
  queue: string,
  use: PairAmounts,
  place: QueuePosition,
  world: World,
): QueueObstacle | undefined {
  const node = getForest(world.ledger.queues).get(queue);
  if (node === undefined) return undefined;
  const asked = sumLimitedAmounts(node, use);
  return findUnavailable(node, asked, buildQuotaWorld(world)) ?? findKeptAmounts(node, asked, place, world);
}

function findUnavailable(node: QueueNode, asked: PairAmounts, quotas: QuotaWorld): QueueObstacle | undefined {
  const short = findShortage(asked, (pair) => computeFreeQuota(node, pair, quotas));
  return short && { code: "WAITING_FOR_QUOTA", queue: node.queue.name, quota: toQuotaShortage(short) };
}

/** The amounts that a demand requests of its queue. */
type Asked = { readonly node: QueueNode; readonly asked: PairAmounts; readonly place: QueuePosition };

/** Returns the shortage of borrowed quota beside all quota kept from borrowers. `keptIn`: as for `useWithKept`. */
export function findKeptShortage(
  { node, asked, place }: Asked,
  world: World,
  keptIn = world,
): PairShortage | undefined {
  const quotas = buildQuotaWorld(world);
  const use = getUseForRequest({ node, asked, place }, world);
  if (computeQuotaLevel(node, asked, { ...quotas, use }) === 0) return undefined;
  const kept = { pools: quotas.pools, use: useWithKept(node, place, world, keptIn) };
  return findShortage(asked, (pair) => computeFreeQuota(node, pair, kept));
}

function findKeptAmounts(
  node: QueueNode,
  asked: PairAmounts,
  place: QueuePosition,
  world: World,
): QueueObstacle | undefined {
  const short = findKeptShortage({ node, asked, place }, world);
  return short && { code: "KEPT_FOR_OWNER", queue: node.queue.name, quota: toQuotaShortage(short) };
}

function toQuotaShortage({ pair, requested, available }: PairShortage): QuotaShortage {
  return { ...parsePair(pair), requested, available };
}

/** Levels from the queue up to the first quota that suffices for the demand; 0 without a queue. */
export function computeDemandLevel({ queue, needs }: QueueDemand, place: QueuePosition, world: World): number {
  const node = queue === undefined ? undefined : getForest(world.ledger.queues).get(queue);
  if (node === undefined) return 0;
  const asked = sumLimitedAmounts(node, sumRequestedAmounts(needs, world.machines).amounts);
  const use = getUseForRequest({ node, asked, place }, world);
  return computeQuotaLevel(node, asked, { ...buildQuotaWorld(world), use });
}
