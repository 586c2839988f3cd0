import type { SortedMap, Summaries } from "../ledger/sorted-map.ts";
import {
  classOfOption,
  comparePlaces,
  optionsOfRequest,
  type Place,
  type QueuedRequests,
  type WaitingClass,
} from "../ledger/waiting-queue.ts";
import type { WaitingTree } from "../ledger/waiting-trees.ts";
import type { World } from "../ledger/world.ts";
import { knownReservation } from "../ledger/ledger.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { findObstacle, type Holds } from "./fit.ts";
import { forestOf, limitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { levelOf } from "../ledger/quota.ts";
import type { PoolGang } from "../ledger/reservation.ts";
import {
  bestRank,
  freeForRequests,
  headSummaries,
  isShort,
  mayAdmit,
  treeSummaries,
  type AdmittedBounds,
  type Standing,
  type TreeBounds,
} from "./queue-bounds.ts";
import { quotaWorldOf } from "./queue-heads.ts";
import { pastShareOf } from "../ledger/past-use.ts";
import { compareShares, shareOf, withPastShare } from "../ledger/share.ts";

type Candidate = Asking & { readonly waiting: WaitingClass };

/** A request that names a queue, and the standing that its grant would give. */
export type Asking = Pick<Standing, "isLast" | "place"> & {
  readonly node: QueueNode;
  /** As `levelOf`. */
  readonly level: number;
  /** The use of the tree once it is granted. */
  readonly use: QueueUse["tree"];
};

type Candidates = SortedMap<Place, WaitingClass>;

type Search = {
  readonly world: World;
  readonly trees: Summaries<WaitingTree, TreeBounds>;
  readonly isBlocked: (waiting: WaitingClass, place: Place) => boolean;
};

/**
 * Who is next of the requests that can be granted: in each queue the first by priority and age; between the queues of one parent the one whose nearest quota
 * suffices, then the lower share with the request and past use, then priority and age, and queues without weight that borrow come last; from the leaves to
 * the roots. Trees, and requests without a queue, which borrow nothing, are compared alike, without shares.
 *
 * `candidates`: requests without a queue; `rest`: without the first and those that were found to be blocked. Queues are visited best bounds first
 * (`TreeBounds`), and only while these are better than the best request that was found.
 */
export function takeFirst(
  candidates: Candidates,
  world: World,
  holds: Holds,
): { readonly first: readonly [Place, WaitingClass] | undefined; readonly rest: Candidates } {
  const isBlocked: Search["isBlocked"] = (waiting, place) => findObstacle(waiting, place, world, holds) !== undefined;
  let rest = candidates;
  let head = rest.first();
  while (head !== undefined && isBlocked(head[1], head[0])) {
    rest = rest.delete(head[0]);
    head = rest.first();
  }
  const queued = firstOfTrees({ world, isBlocked, trees: treeSummaries(world, holds.overdueSinceMs) });
  if (queued === undefined || (head !== undefined && compareTrees({ isLast: false, place: head[0] }, queued) < 0))
    return { first: head, rest: head === undefined ? rest : rest.delete(head[0]) };
  return { first: [queued.place, queued.waiting], rest };
}

function firstOfTrees(search: Search): Candidate | undefined {
  let first: Candidate | undefined;
  const mayBeFirst = (best: TreeStanding): boolean => first === undefined || compareTrees(best, first) < 0;
  for (const [, tree] of search.world.ledger.trees.searchBest(
    search.trees,
    (bounds) => bestRank(bounds, ({ best }) => (mayBeFirst(best) ? best : undefined), compareTrees),
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
  let first: { readonly candidate: Candidate; readonly standing: Standing } | undefined;
  const mayBeFirst = (best: Standing): boolean => first === undefined || compareStandings(best, first.standing) < 0;
  const standingIfFirst = (admitted: AdmittedBounds): Standing | undefined =>
    mayBeFirst(admitted.best) && isAdmitted(admitted) ? admitted.best : undefined;
  for (const [, child] of children.searchBest(
    search.trees,
    (bounds) => bestRank(bounds, standingIfFirst, compareStandings),
    compareStandings,
  )) {
    const candidate = firstOfTree(child, search);
    const standing = candidate && standingOf(candidate, child.node, search.world);
    if (candidate !== undefined && standing !== undefined && mayBeFirst(standing)) first = { candidate, standing };
  }
  return first?.candidate;
}

function firstOfQueue(node: QueueNode, { heads }: QueuedRequests, search: Search): Candidate | undefined {
  const { world, isBlocked } = search;
  const free = freeForRequests(node, world);
  for (const [place, waiting] of heads.search(headSummaries(world), ({ needed }) => !isShort(needed, free)))
    if (!isBlocked(waiting, place)) return withNearestQuota(candidateOf(place, waiting, node, world), search);
  return undefined;
}

/** The same request with the option for which a nearer quota suffices, if there is one that nothing stands in the way of. */
function withNearestQuota(candidate: Candidate, { world, isBlocked }: Search): Candidate {
  const { place, node } = candidate;
  if (place.option === undefined) return candidate;
  const reservation = knownReservation(world.ledger, place.sequence);
  let nearest = candidate;
  for (const option of optionsOfRequest(reservation)) {
    if (nearest.level === 0) break;
    const waiting = classOfOption(world.ledger.queue, reservation, option.place);
    if (isBlocked(waiting, option.place)) continue;
    const other = candidateOf(option.place, waiting, node, world);
    if (other.level < nearest.level) nearest = other;
  }
  return nearest;
}

export type Head = readonly [Place, WaitingClass];

/** The first of requests that are each the first one of its queue, in the same order. */
export function firstOfHeads(heads: readonly Head[], world: World): Head | undefined {
  const forest = forestOf(world.ledger.queues);
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
      return { candidate, standing: standingOf(candidate, child, world) };
    })
    .sort((a, b) => compareStandings(a.standing, b.standing));
  return first?.candidate;
}

function candidateOf(place: Place, waiting: WaitingClass, node: QueueNode, world: World): Candidate {
  return { ...askingOf(place, waiting, node, world), waiting };
}

export function askingOf(place: Place, { needs }: PoolGang, node: QueueNode, world: World): Asking {
  const quotas = quotaWorldOf(world);
  const asked = limitedAmounts(node, askedAmounts(needs, world.machines).amounts);
  const use = withTreeUse(quotas.use, node, asked, 1);
  const isLast = node.path.some((each) => {
    return each.queue.weightMilli === 0 && shareOf(each, use.get(each.queue.name) ?? NO_PAIRS, quotas).isLast;
  });
  return { place, node, level: levelOf(node, asked, quotas), use, isLast };
}

/** The standing of a candidate in or below the queue among the queues of its parent. */
export function standingOf({ node, level, use, isLast, place }: Asking, queue: QueueNode, world: World): Standing {
  const borrowed = shareOf(queue, use.get(queue.queue.name) ?? NO_PAIRS, quotaWorldOf(world));
  const share = withPastShare(borrowed, pastShareOf(queue, world.ledger.pastUse));
  return { isLast, level: Math.max(0, level - node.path.indexOf(queue)), share, place };
}

function compareStandings(a: Standing, b: Standing): number {
  return (
    Number(a.isLast) - Number(b.isLast) ||
    a.level - b.level ||
    compareShares(a.share, b.share) ||
    comparePlaces(a.place, b.place)
  );
}

type TreeStanding = Pick<Standing, "isLast" | "place">;

/** Trees lend nothing to each other. */
function compareTrees(a: TreeStanding, b: TreeStanding): number {
  return Number(a.isLast) - Number(b.isLast) || comparePlaces(a.place, b.place);
}
