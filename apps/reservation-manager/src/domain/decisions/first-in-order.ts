import type { SortedMap, Summaries } from "../ledger/sorted-map.ts";
import {
  getClassOfOption,
  compareQueuePositions,
  listRequestOptions,
  type QueuePosition,
  type QueuedRequests,
  type WaitingClass,
} from "../ledger/waiting-queue.ts";
import type { WaitingTree } from "../ledger/waiting-trees.ts";
import type { World } from "../ledger/world.ts";
import { getReservation } from "../ledger/ledger.ts";
import { sumRequestedAmounts } from "./sum-requested-amounts.ts";
import { findObstacle, type OverdueHolds } from "./fit.ts";
import { getForest, sumLimitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { computeQuotaLevel } from "../ledger/quota.ts";
import type { PoolGang } from "../ledger/reservation.ts";
import { buildHeadSummaries } from "./head-summaries.ts";
import {
  findBestRank,
  computeFreeForRequests,
  isShort,
  mayAdmit,
  buildTreeSummaries,
  type AdmittedBounds,
  type QueueRank,
  type TreeBounds,
} from "./queue-bounds.ts";
import { buildQuotaWorld } from "./queue-heads.ts";
import { getUseForRequest } from "./use-for-request.ts";
import { getPastShare } from "../ledger/past-use.ts";
import { compareShares, computeShare, withPastShare } from "../ledger/share.ts";

type Candidate = QueuedRequestRank & { readonly waiting: WaitingClass };

/** A request that names a queue, with the parts of its rank and the use after its grant. */
export type QueuedRequestRank = Pick<QueueRank, "isLast" | "place"> & {
  readonly node: QueueNode;
  /** As `computeQuotaLevel`. */
  readonly level: number;
  /** The use of the tree after the grant. */
  readonly use: QueueUse["tree"];
};

type Candidates = SortedMap<QueuePosition, WaitingClass>;

type Search = {
  readonly world: World;
  readonly trees: Summaries<WaitingTree, TreeBounds>;
  readonly isBlocked: (waiting: WaitingClass, place: QueuePosition) => boolean;
};

/**
 * Selects the next request to grant. In each queue the first by priority and age is a candidate. Between the queues of one parent the nearest sufficient quota
 * decides, then the lower share with the request and past use, then priority and age; borrowers of weight 0 come last. Queues are compared from the leaves to
 * the roots. Trees, and requests without a queue, are compared without quota and shares.
 *
 * `candidates`: requests without a queue. `rest`: `candidates` without the first and those found blocked. Queues are visited best bounds first (`TreeBounds`),
 * and only while a bound is better than the best request found.
 */
export function takeFirst(
  candidates: Candidates,
  world: World,
  holds: OverdueHolds,
): { readonly first: readonly [QueuePosition, WaitingClass] | undefined; readonly rest: Candidates } {
  const isBlocked: Search["isBlocked"] = (waiting, place) => findObstacle(waiting, place, world, holds) !== undefined;
  let rest = candidates;
  let head = rest.first();
  while (head !== undefined && isBlocked(head[1], head[0])) {
    rest = rest.delete(head[0]);
    head = rest.first();
  }
  const queued = firstOfTrees({ world, isBlocked, trees: buildTreeSummaries(world, holds.overdueSinceMs) });
  if (queued === undefined || (head !== undefined && compareTrees({ isLast: false, place: head[0] }, queued) < 0))
    return { first: head, rest: head === undefined ? rest : rest.delete(head[0]) };
  return { first: [queued.place, queued.waiting], rest };
}

function firstOfTrees(search: Search): Candidate | undefined {
  let first: Candidate | undefined;
  const mayBeFirst = (best: TreeRank): boolean => first === undefined || compareTrees(best, first) < 0;
  for (const [, tree] of search.world.ledger.trees.searchBest(
    search.trees,
    (bounds) => findBestRank(bounds, ({ best }) => (mayBeFirst(best) ? best : undefined), compareTrees),
    compareTrees,
  )) {
    const candidate = firstOfTree(tree, search);
    if (candidate !== undefined && mayBeFirst(candidate)) first = candidate;
  }
  return first;
}

function firstOfTree(tree: WaitingTree, search: Search): Candidate | undefined {
  const { node, children, requests } = tree;
  if (node.children.length === 0) return requests && firstOfQueue(node, requests, search);
  const isAdmitted = mayAdmit(node, search.world);
  let first: { readonly candidate: Candidate; readonly rank: QueueRank } | undefined;
  const mayBeFirst = (best: QueueRank): boolean => first === undefined || compareQueueRanks(best, first.rank) < 0;
  const rankIfFirst = (admitted: AdmittedBounds): QueueRank | undefined =>
    mayBeFirst(admitted.best) && isAdmitted(admitted) ? admitted.best : undefined;
  for (const [, child] of children.searchBest(
    search.trees,
    (bounds) => findBestRank(bounds, rankIfFirst, compareQueueRanks),
    compareQueueRanks,
  )) {
    const candidate = firstOfTree(child, search);
    const rank = candidate && getQueueRank(candidate, child.node, search.world);
    if (candidate !== undefined && rank !== undefined && mayBeFirst(rank)) first = { candidate, rank };
  }
  return first?.candidate;
}

function firstOfQueue(node: QueueNode, { heads }: QueuedRequests, search: Search): Candidate | undefined {
  const { world, isBlocked } = search;
  const free = computeFreeForRequests(node, world);
  for (const [place, waiting] of heads.search(buildHeadSummaries(world), ({ needed }) => !isShort(needed, free)))
    if (!isBlocked(waiting, place)) return withNearestQuota(candidateOf(place, waiting, node, world), search);
  return undefined;
}

/** Replaces the request's option by an unblocked one with a nearer sufficient quota, if one exists. */
function withNearestQuota(candidate: Candidate, { world, isBlocked }: Search): Candidate {
  const { place, node } = candidate;
  if (place.option === undefined) return candidate;
  const reservation = getReservation(world.ledger, place.sequence);
  let nearest = candidate;
  for (const option of listRequestOptions(reservation)) {
    if (nearest.level === 0) break;
    const waiting = getClassOfOption(world.ledger.queue, reservation, option.place);
    if (isBlocked(waiting, option.place)) continue;
    const other = candidateOf(option.place, waiting, node, world);
    if (other.level < nearest.level) nearest = other;
  }
  return nearest;
}

export type QueueHead = readonly [QueuePosition, WaitingClass];

/** Returns the first of these queue heads, in the order of `takeFirst`. */
export function findFirstHead(heads: readonly QueueHead[], world: World): QueueHead | undefined {
  const forest = getForest(world.ledger.queues);
  const candidates = heads.flatMap(([place, waiting]) => {
    const node = forest.get(waiting.queue ?? "");
    return node === undefined ? [] : [candidateOf(place, waiting, node, world)];
  });
  const roots = new Set(candidates.flatMap(({ node }) => node.path.at(-1) ?? []));
  const firsts = [...roots].flatMap((root) => firstOfCandidates(root, candidates, world) ?? []);
  const others = heads.filter(([, { queue }]) => queue === undefined);
  const all = [...firsts, ...others.map(([place, waiting]) => ({ isLast: false, place, waiting }))];
  const [first] = all.sort(compareTrees);
  return first && [first.place, first.waiting];
}

function firstOfCandidates(queue: QueueNode, candidates: readonly Candidate[], world: World): Candidate | undefined {
  if (queue.children.length === 0) return candidates.find(({ node }) => node === queue);
  const below = candidates.filter(({ node }) => node.path.includes(queue));
  const children = new Set(below.flatMap(({ node }) => node.path[node.path.indexOf(queue) - 1] ?? []));
  const [first] = [...children]
    .flatMap((child) => firstOfCandidates(child, below, world) ?? [])
    .map((candidate) => {
      const child = candidate.node.path[candidate.node.path.indexOf(queue) - 1] ?? candidate.node;
      return { candidate, rank: getQueueRank(candidate, child, world) };
    })
    .sort((a, b) => compareQueueRanks(a.rank, b.rank));
  return first?.candidate;
}

function candidateOf(place: QueuePosition, waiting: WaitingClass, node: QueueNode, world: World): Candidate {
  return { ...getWaitingRequest(place, waiting, node, world), waiting };
}

export function getWaitingRequest(
  place: QueuePosition,
  { needs }: PoolGang,
  node: QueueNode,
  world: World,
): QueuedRequestRank {
  const quotas = buildQuotaWorld(world);
  const asked = sumLimitedAmounts(node, sumRequestedAmounts(needs, world.machines).amounts);
  const before = getUseForRequest({ node, asked, place }, world);
  const use = withTreeUse(before, node, asked, 1);
  const isLast = node.path.some((each) => {
    return each.queue.weightMilli === 0 && computeShare(each, use.get(each.queue.name) ?? NO_PAIRS, quotas).isLast;
  });
  return { place, node, level: computeQuotaLevel(node, asked, { ...quotas, use: before }), use, isLast };
}

/** The rank of a candidate in or below the queue among the queues of its parent. */
export function getQueueRank(
  { node, level, use, isLast, place }: QueuedRequestRank,
  queue: QueueNode,
  world: World,
): QueueRank {
  const borrowed = computeShare(queue, use.get(queue.queue.name) ?? NO_PAIRS, buildQuotaWorld(world));
  const share = withPastShare(borrowed, getPastShare(queue, world.ledger.pastUse));
  return { isLast, level: Math.max(0, level - node.path.indexOf(queue)), share, place };
}

function compareQueueRanks(a: QueueRank, b: QueueRank): number {
  return (
    Number(a.isLast) - Number(b.isLast) ||
    a.level - b.level ||
    compareShares(a.share, b.share) ||
    compareQueuePositions(a.place, b.place)
  );
}

type TreeRank = Pick<QueueRank, "isLast" | "place">;

/** Compares without quota and shares, because trees lend nothing to each other. */
function compareTrees(a: TreeRank, b: TreeRank): number {
  return Number(a.isLast) - Number(b.isLast) || compareQueuePositions(a.place, b.place);
}
