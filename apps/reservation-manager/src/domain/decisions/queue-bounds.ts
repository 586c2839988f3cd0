import { countFreeReservations } from "../ledger/ledger.ts";
import { isLimited, sumLimitedAmounts, mayUse, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts } from "../ledger/queue.ts";
import { computeUseOfParent, withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import {
  findShortage,
  computeFreeQuota,
  computeFreeQuotaOfTree,
  computeQuotaLevel,
  findNeededAbove,
  computeQuotaTotal,
} from "../ledger/quota.ts";
import { compareShares, computeShare, withPastShare, type Share } from "../ledger/share.ts";
import type { Summaries } from "../ledger/sorted-map.ts";
import {
  compareQueuePositions,
  getEndOfOptions,
  type QueuePosition,
  type QueuedRequests,
} from "../ledger/waiting-queue.ts";
import type { WaitingTree } from "../ledger/waiting-trees.ts";
import type { World } from "../ledger/world.ts";
import { sumRequestedAmounts } from "./sum-requested-amounts.ts";
import { sumPoolAmounts } from "./sum-pool-amounts.ts";
import { buildHeadSummaries, cacheByLimits, mergeBounds, minOfBoth, type RequestBounds } from "./head-summaries.ts";
import { findStrictHead, findUnservedHead, isPossible, buildQuotaWorld } from "./queue-heads.ts";
import { findPassedHead, getUseForRequest } from "./use-for-request.ts";

/** The rank of a request among the queues of one parent: decided by these fields, in this order. */
export type QueueRank = {
  /** True if the request borrows for a queue of weight 0 and so comes after all others. */
  readonly isLast: boolean;
  /** Levels from the queue below the parent up to the first quota that suffices. */
  readonly level: number;
  /** The share of that queue after the grant of the request, with the queue's past borrowing. */
  readonly share: Share;
  readonly place: QueuePosition;
};

/** The bounds of the requests in a queue and below it. Valid while `fromMs` < `overdueSinceMs` <= `untilMs`. */
export type TreeBounds = {
  readonly fromMs: number;
  readonly untilMs: number;
  /** Quota of the queue itself that is held for an overdue request. */
  readonly held: HeldQuota | undefined;
  /** Bounds of the requests that the queues admit now, one entry per combination of `isOwner` and `isBehind`. */
  readonly admitted: readonly AdmittedBounds[];
};

export type AdmittedBounds = RequestBounds & {
  /** True if the quota of the requests' own queue may suffice. Otherwise the requests may not use quota that is kept for owners. */
  readonly isOwner: boolean;
  /** True if the requests come after the request for which their queue holds quota. `needed` then includes that quota. */
  readonly isBehind: boolean;
  /** As `needed`, but to be compared with the free amounts that remain beside the quota kept for owners. */
  readonly besideKept: PairAmounts;
  /** By pair, the minimum that any of the requests adds to the use of the parent. */
  readonly asked: PairAmounts;
  /** The best rank that any of the requests can have among the queues of the parent. */
  readonly best: QueueRank;
};

/** Quota that is held for a request. `place` follows all options of the request, so that the hold affects only later requests. */
export type HeldQuota = { readonly place: QueuePosition; readonly asked: PairAmounts };

export type FreeAmounts = (pair: string) => number;

/** Cached results; see `cacheByLimits`. */
type Known = {
  readonly owners: Summaries<WaitingTree, true>["known"];
  readonly ownersOfTree: WeakMap<WaitingTree, boolean>;
  /** Caches by root. */
  readonly kept: WeakMap<WaitingTree, KeptUse>;
  readonly trees: Summaries<WaitingTree, TreeBounds>["known"];
  readonly ofTree: WeakMap<WaitingTree, TreeBounds>;
};

const knownOf = cacheByLimits<Known>(() => ({
  owners: new WeakMap(),
  ownersOfTree: new WeakMap(),
  kept: new WeakMap(),
  trees: new WeakMap(),
  ofTree: new WeakMap(),
}));

/** The use of a tree plus all kept quota. `withSingle` omits the quota of requests with several options, for a caller that may itself be an option of one. */
type KeptUse = {
  readonly kept: readonly Kept[];
  readonly withAll: QueueUse["tree"];
  readonly withSingle: QueueUse["tree"];
};

/** Finds the trees in which a queue's own quota may suffice for one of its requests now. */
function ownerSummaries(world: World): Summaries<WaitingTree, true> {
  const { owners, ownersOfTree } = knownOf(world);
  const of = (tree: WaitingTree): true | undefined => {
    const isOwner = ownersOfTree.get(tree) ?? hasOwner(tree, summaries, world);
    ownersOfTree.set(tree, isOwner);
    return isOwner ? true : undefined;
  };
  const summaries = { of, merge: () => true as const, isCurrent: () => true, known: owners };
  return summaries;
}

function hasOwner(tree: WaitingTree, owners: Summaries<WaitingTree, true>, world: World): boolean {
  const requests = requestsOf(tree);
  if (requests === undefined) return tree.children.summary(owners) === true;
  const { node } = tree;
  // Requests behind a beneficiary may keep quota; see `findKept`.
  const last = node.queue.strategy === "StrictFIFO" ? findUnservedHead(node, world) : undefined;
  const heads = requests.heads.summary(buildHeadSummaries(world), last);
  if (heads === undefined) return false;
  const use = useWithLeft(world);
  const used = use.get(node.queue.name) ?? NO_PAIRS;
  const asked = limitedBounds(heads, node);
  return (
    suffices({ node, used }, asked, sumPoolAmounts(world.machines)) || findPassedHead(node, world, use) !== undefined
  );
}

/** The use of the queues after preempted work has left and its beneficiaries have been granted. */
function useWithLeft({ ledger: { use } }: World): QueueUse["tree"] {
  return use.later ?? use.tree;
}

/** The requests that the queue itself may admit. */
function requestsOf({ node, requests }: WaitingTree): QueuedRequests | undefined {
  return node.problem === undefined ? requests : undefined;
}

/** The last place that the queue admits; undefined: it admits every place. */
function lastPlaceOf({ node }: WaitingTree, world: World): QueuePosition | undefined {
  return node.queue.strategy === "StrictFIFO" ? findStrictHead(node, world) : undefined;
}

function limitedBounds({ needed }: RequestBounds, node: QueueNode): PairAmounts {
  return new Map([...needed].filter(([pair]) => isLimited(node, pair)));
}

/** Whether the total quota of the queue suffices for the requested amounts beside its use. */
function suffices({ node, used }: Pick<WaitingTree, "node" | "used">, asked: PairAmounts, pools: PairAmounts): boolean {
  for (const [pair, amount] of asked)
    if ((used.get(pair) ?? 0) + amount > computeQuotaTotal(node, pair, pools)) return false;
  return true;
}

/**
 * Returns the use of the tree plus the quota that borrowers must leave to its owners. Each queue keeps quota for its first request that its own quota covers,
 * but that waits because others borrow this quota. Queues that reclaim from all others, and beneficiaries, keep nothing. Quota kept for one option of the
 * request at this place does not stop its other options. `keptIn`: an earlier world that decides which requests keep quota.
 */
export function useWithKept(node: QueueNode, place: QueuePosition, world: World, keptIn = world): QueueUse["tree"] {
  const known = keptUseOf(node, keptIn);
  if (known === undefined) return world.ledger.use.tree;
  const { kept, withAll } = known;
  const others = place.option === undefined ? kept : kept.filter((each) => each.place.sequence !== place.sequence);
  return keptIn === world && others.length === kept.length ? withAll : withKept(others, world);
}

function keptUseOf({ root }: QueueNode, world: World): KeptUse | undefined {
  const tree = world.ledger.trees.get(root.name);
  if (tree === undefined) return undefined;
  const known = knownOf(world).kept;
  const same = known.get(tree);
  if (same !== undefined) return same;
  const kept = [...findKept(tree, world)];
  const single = kept.filter(({ place }) => place.option === undefined);
  const withAll = withKept(kept, world);
  const use = { kept, withAll, withSingle: single.length === kept.length ? withAll : withKept(single, world) };
  known.set(tree, use);
  return use;
}

function withKept(kept: readonly Kept[], world: World): QueueUse["tree"] {
  return kept.reduce((use, { node, asked }) => withTreeUse(use, node, asked, 1), world.ledger.use.tree);
}

function firstUnserved(places: Iterable<QueuePosition>, beneficiaries: ReadonlySet<number>): QueuePosition | undefined {
  for (const place of places) if (!beneficiaries.has(place.sequence)) return place;
  return undefined;
}

/** Quota of a queue that borrowers must leave to a request. */
type Kept = { readonly node: QueueNode; readonly asked: PairAmounts; readonly place: QueuePosition };

/** Yields the kept quota, of at most one request per queue. */
function* findKept(tree: WaitingTree, world: World): Generator<Kept> {
  const { node, children } = tree;
  const { ledger, machines, attainable = machines } = world;
  for (const [, child] of children.search(ownerSummaries(world), () => true)) yield* findKept(child, world);
  if (node.queue.reclaim === "Any") return;
  const strictHead = node.queue.strategy === "StrictFIFO" ? findUnservedHead(node, world) : undefined;
  const beneficiaries = new Set(ledger.beneficiaries.map(({ sequence }) => sequence));
  const quotas = { use: ledger.use.tree, pools: sumPoolAmounts(machines) };
  for (const waiting of requestsOf(tree)?.heads.values() ?? []) {
    const place = firstUnserved(waiting.places.keys(), beneficiaries);
    if (place === undefined || (strictHead !== undefined && strictHead.sequence !== place.sequence)) continue;
    const asked = sumLimitedAmounts(node, sumRequestedAmounts(waiting.needs, machines).amounts);
    const isShortNow = findShortage(asked, (pair) => computeFreeQuota(node, pair, quotas)) !== undefined;
    if (!isShortNow) continue;
    const use = getUseForRequest({ node, asked, place }, world, useWithLeft(world));
    if (computeQuotaLevel(node, asked, { ...quotas, use }) > 0) continue;
    if (countFreeReservations(waiting.ownerKind, ledger) === 0 || !isPossible(waiting, attainable)) continue;
    yield { node, asked, place };
    return;
  }
}

/**
 * Summarises the requests of queues as bounds, so that a search skips requests that quota stops. A change of a queue or its use invalidates only the summaries
 * on its path to the root. Quota is held for requests older than `overdueSinceMs`.
 */
export function buildTreeSummaries(world: World, overdueSinceMs: number): Summaries<WaitingTree, TreeBounds> {
  const { trees, ofTree } = knownOf(world);
  // `overdueSinceMs` is also -Infinity if no request is ever overdue.
  const isCurrent = ({ fromMs, untilMs }: TreeBounds): boolean =>
    (fromMs < overdueSinceMs || fromMs === -Infinity) && overdueSinceMs <= untilMs;
  const of = (tree: WaitingTree): TreeBounds => {
    const same = ofTree.get(tree);
    if (same !== undefined && isCurrent(same)) return same;
    const requests = requestsOf(tree);
    const bounds =
      requests === undefined
        ? boundsOfChildren(tree, summaries, world)
        : boundsOfQueue(tree, requests, world, overdueSinceMs);
    ofTree.set(tree, bounds);
    return bounds;
  };
  const summaries = { of, merge: mergeTrees, isCurrent, known: trees };
  return summaries;
}

const NOTHING: TreeBounds = { fromMs: -Infinity, untilMs: Infinity, held: undefined, admitted: [] };

function mergeTrees(a: TreeBounds, b: TreeBounds): TreeBounds {
  const fromMs = Math.max(a.fromMs, b.fromMs);
  const untilMs = Math.min(a.untilMs, b.untilMs);
  const isLike = (one: AdmittedBounds) => (other: AdmittedBounds) =>
    one.isOwner === other.isOwner && one.isBehind === other.isBehind;
  const merged = a.admitted.map((each) => {
    const other = b.admitted.find(isLike(each));
    return other === undefined ? each : mergeAdmitted(each, other);
  });
  const others = b.admitted.filter((each) => !a.admitted.some(isLike(each)));
  return { fromMs, untilMs, held: undefined, admitted: [...merged, ...others] };
}

function mergeAdmitted(a: AdmittedBounds, b: AdmittedBounds): AdmittedBounds {
  const bounds = mergeBounds(a, b);
  return {
    ...bounds,
    isOwner: a.isOwner,
    isBehind: a.isBehind,
    besideKept: minOfBoth(a.besideKept, b.besideKept),
    asked: minOfBoth(a.asked, b.asked),
    best: {
      isLast: false,
      level: Math.min(a.best.level, b.best.level),
      share: compareShares(a.best.share, b.best.share) <= 0 ? a.best.share : b.best.share,
      place: bounds.first,
    },
  };
}

function boundsOfChildren(tree: WaitingTree, summaries: Summaries<WaitingTree, TreeBounds>, world: World): TreeBounds {
  const { node, children } = tree;
  const below = children.summary(summaries) ?? NOTHING;
  const pools = sumPoolAmounts(world.machines);
  const admitted = below.admitted.flatMap((each) => boundsAbove(tree, each, pools) ?? []);
  const isDecided = node.parent !== undefined || admitted.every(({ isOwner }) => isOwner);
  return { ...below, admitted: isDecided ? admitted : admitted.filter(mayAdmit(node, world)) };
}

function boundsOfQueue(tree: WaitingTree, { heads }: QueuedRequests, world: World, overdueSinceMs: number): TreeBounds {
  const { node } = tree;
  const pools = sumPoolAmounts(world.machines);
  const summaries = buildHeadSummaries(world);
  const last = lastPlaceOf(tree, world);
  const all = heads.summary(summaries, last);
  const { held, ...times } = findHeld(tree, heads, world, overdueSinceMs);
  const end = last ?? heads.last()?.[0];
  const hasBehind = held !== undefined && end !== undefined && compareQueuePositions(held.place, end) < 0;
  const admitted: AdmittedBounds[] = [];
  const add = (bounds: RequestBounds | undefined, kept: PairAmounts | undefined): void => {
    if (bounds === undefined) return;
    const asked = limitedBounds(bounds, node);
    if (![...asked.keys()].every((pair) => mayUse(node, pair))) return;
    const needed = kept && new Map([...asked].map(([pair, amount]) => [pair, amount + (kept.get(pair) ?? 0)]));
    const kind = { isOwner: suffices(tree, asked, pools), isBehind: kept !== undefined };
    const above = boundsAbove(tree, { ...bounds, ...kind, asked, needed: needed ?? asked, besideKept: asked }, pools);
    if (above !== undefined) admitted.push(above);
  };
  add(hasBehind ? heads.summary(summaries, held.place) : all, undefined);
  if (hasBehind) add(all, held.asked);
  return { ...times, held, admitted: withPassedHead(admitted, tree, world) };
}

/** Adds the request of `findPassedHead`, which ranks as an owner although later work of its queue uses its quota. */
function withPassedHead(
  admitted: readonly AdmittedBounds[],
  tree: WaitingTree,
  world: World,
): readonly AdmittedBounds[] {
  const head = findPassedHead(tree.node, world, world.ledger.use.tree);
  if (head === undefined) return admitted;
  const { place: first, asked: needed, excess } = head;
  // The queue counts as using `excess` less, so the grant adds less to the use of the parent.
  const asked = new Map([...needed].map(([pair, amount]) => [pair, amount - (excess.get(pair) ?? 0)]));
  const kind = { isOwner: true, isBehind: false };
  const ofHead = boundsAbove(
    tree,
    { needed, first, oldestMs: first.createdAtMs, ...kind, asked, besideKept: needed },
    sumPoolAmounts(world.machines),
  );
  if (ofHead === undefined) return admitted;
  const alike = admitted.find(({ isOwner, isBehind }) => isOwner && !isBehind);
  return [...admitted.filter((each) => each !== alike), alike === undefined ? ofHead : mergeAdmitted(alike, ofHead)];
}

/**
 * Finds the first overdue request that is possible and that the queue's own quota covers, used or not. The result is valid while `fromMs` < `overdueSinceMs` <=
 * `untilMs`.
 */
function findHeld(
  { node }: WaitingTree,
  heads: QueuedRequests["heads"],
  world: World,
  overdueSinceMs: number,
): Pick<TreeBounds, "held" | "fromMs" | "untilMs"> {
  const { pools } = buildQuotaWorld(world);
  const totalFor = (pair: string): number => (isLimited(node, pair) ? computeQuotaTotal(node, pair, pools) : Infinity);
  let untilMs = Infinity;
  for (const [place, waiting] of heads.search(buildHeadSummaries(world), ({ needed }) => !isShort(needed, totalFor))) {
    if (place.createdAtMs >= overdueSinceMs) untilMs = Math.min(untilMs, place.createdAtMs);
    else if (isPossible(waiting, world.attainable ?? world.machines)) {
      const asked = sumLimitedAmounts(node, sumRequestedAmounts(waiting.needs, world.machines).amounts);
      return { held: { place: getEndOfOptions(place), asked }, fromMs: place.createdAtMs, untilMs };
    }
  }
  return { held: undefined, fromMs: -Infinity, untilMs };
}

/** Converts bounds inside a queue to bounds among the queues of its parent; undefined: the limits of the queue admit none of the requests now. */
function boundsAbove(
  tree: WaitingTree,
  below: Omit<AdmittedBounds, "best"> & { readonly best?: QueueRank },
  pools: PairAmounts,
): AdmittedBounds | undefined {
  const { node, used, pastShare } = tree;
  const needed = computeCommonMinimum(tree, below.needed, pools);
  const besideKept = computeCommonMinimum(tree, below.besideKept, pools);
  if (needed === undefined || besideKept === undefined) return undefined;
  const usedThen = new Map(used);
  const asked = new Map<string, number>();
  for (const [pair, amount] of below.asked) {
    const usedNow = used.get(pair) ?? 0;
    usedThen.set(pair, usedNow + amount);
    asked.set(pair, computeUseOfParent(node, pair, usedNow + amount) - computeUseOfParent(node, pair, usedNow));
  }
  const isNear = below.best?.level === 0 || suffices(tree, below.asked, pools);
  const share = withPastShare(computeShare(node, usedThen, { pools }), pastShare);
  const best = { isLast: false, level: isNear ? 0 : 1, share, place: below.first };
  return { ...below, needed, besideKept, asked, best };
}

function computeCommonMinimum(
  { node, used }: WaitingTree,
  needed: PairAmounts,
  pools: PairAmounts,
): PairAmounts | undefined {
  const above = new Map<string, number>();
  for (const [pair, amount] of needed) {
    const ofParent = findNeededAbove(node, pair, { needed: amount, used: used.get(pair) ?? 0, pools });
    if (ofParent === undefined) return undefined;
    above.set(pair, ofParent);
  }
  return above;
}

export function isShort(needed: PairAmounts, freeFor: FreeAmounts): boolean {
  for (const [pair, amount] of needed) if (amount > freeFor(pair)) return true;
  return false;
}

/** The free amounts for the requests of a queue, computed once per pair. */
export function computeFreeForRequests(node: QueueNode, world: World): FreeAmounts {
  const quotas = buildQuotaWorld(world);
  return cacheByPair((pair) => (isLimited(node, pair) ? computeFreeQuota(node, pair, quotas) : Infinity));
}

/** Returns a predicate: the free amounts of the queue may suffice for a request within these bounds. */
export function mayAdmit(node: QueueNode, world: World): (admitted: AdmittedBounds) => boolean {
  const quotas = buildQuotaWorld(world);
  const free = cacheByPair((pair) => computeFreeQuotaOfTree(node, pair, quotas));
  const besideKept = cacheByPair((pair) => {
    const use = keptUseOf(node, world)?.withSingle ?? quotas.use;
    return computeFreeQuotaOfTree(node, pair, { ...quotas, use });
  });
  return (each) => !isShort(each.needed, free) && (each.isOwner || !isShort(each.besideKept, besideKept));
}

/** The best rank that admitted requests may have; undefined: none has a rank. */
export function findBestRank<Rank>(
  { admitted }: TreeBounds,
  rankOf: (each: AdmittedBounds) => Rank | undefined,
  compare: (a: Rank, b: Rank) => number,
): Rank | undefined {
  let best: Rank | undefined;
  for (const each of admitted) {
    const rank = rankOf(each);
    if (rank !== undefined && (best === undefined || compare(rank, best) < 0)) best = rank;
  }
  return best;
}

function cacheByPair(compute: FreeAmounts): FreeAmounts {
  const known = new Map<string, number>();
  return (pair) => {
    const value = known.get(pair) ?? compute(pair);
    known.set(pair, value);
    return value;
  };
}
