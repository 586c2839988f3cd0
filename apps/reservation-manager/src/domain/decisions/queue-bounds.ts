import { roomFor } from "../ledger/ledger.ts";
import { isLimited, limitedAmounts, mayUse, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts } from "../ledger/queue.ts";
import { countedByParent, withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { findShortage, freeOf, freeOfTree, levelOf, neededOfParent, totalOf } from "../ledger/quota.ts";
import { compareShares, shareOf, withPastShare, type Share } from "../ledger/share.ts";
import type { Summaries } from "../ledger/sorted-map.ts";
import { comparePlaces, endOf, type Place, type QueuedRequests, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { WaitingTree } from "../ledger/waiting-trees.ts";
import type { World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { poolAmounts } from "./pool-amounts.ts";
import { findStrictHead, findUnservedHead, isPossible, quotaWorldOf } from "./queue-heads.ts";

/** The standing that decides between the queues of one parent, in this order. */
export type Standing = {
  /** It borrows for a queue without weight: it comes after all others. */
  readonly isLast: boolean;
  /** How far from the queue below the parent the quota is that suffices. */
  readonly level: number;
  /** The share of that queue once the request is granted, with the queue's past borrowing. */
  readonly share: Share;
  readonly place: Place;
};

/** The lower bounds of several requests, without requests at their concurrency limit. */
export type Bounds = {
  /** By pair, the quota that each of them needs; without pairs that some of them do not ask for. */
  readonly needed: PairAmounts;
  readonly first: Place;
  readonly oldestMs: number;
};

/** The bounds of the requests in a queue and below it. Valid while overdue requests began to wait after `fromMs`, and at `untilMs` or before. */
export type TreeBounds = {
  readonly fromMs: number;
  readonly untilMs: number;
  /** The quota that is held in the queue itself. */
  readonly held: HeldQuota | undefined;
  /** Bounds of those that the queues admit now, apart for each `isOwner` and `isBehind`. */
  readonly admitted: readonly AdmittedBounds[];
};

export type AdmittedBounds = Bounds & {
  /** The own quota of their queue may suffice. Otherwise they leave the quota that is kept for owners. */
  readonly isOwner: boolean;
  /** They are behind the request that quota of their queue is held for, which `needed` includes. */
  readonly isBehind: boolean;
  /** As `needed`, of the amounts that are free beside the quota kept for owners. */
  readonly besideKept: PairAmounts;
  /** The amounts that each of them adds to the use of the parent. */
  readonly asked: PairAmounts;
  /** The best that one of them can have among the queues of the parent. */
  readonly best: Standing;
};

/** The quota that is kept for a request. `place`: its end, as other options of it are not behind it. */
export type HeldQuota = { readonly place: Place; readonly asked: PairAmounts };

/** The free amount of a pair. */
export type FreeAmounts = (pair: string) => number;

/** The results that stay valid while the nodes stay unchanged (`sizesMark`) and the same owner kinds are at their concurrency limit. */
type Known = {
  readonly ofClass: WeakMap<WaitingClass, Bounds>;
  readonly heads: Summaries<WaitingClass, Bounds>["known"];
  readonly owners: Summaries<WaitingTree, true>["known"];
  readonly ownersOfTree: WeakMap<WaitingTree, boolean>;
  /** Caches by root. */
  readonly kept: WeakMap<WaitingTree, KeptUse>;
  readonly trees: Summaries<WaitingTree, TreeBounds>["known"];
  readonly ofTree: WeakMap<WaitingTree, TreeBounds>;
};

const knownBounds = new WeakMap<object, Map<string, Known>>();
const MAX_KNOWN = 16;

function knownOf({ ledger, machines }: World): Known {
  const atLimit = [...ledger.limits.keys()].filter((kind) => roomFor(kind, ledger) === 0).join(" ");
  const byLimits = knownBounds.get(machines.sizesMark) ?? new Map<string, Known>();
  knownBounds.set(machines.sizesMark, byLimits);
  const same = byLimits.get(atLimit);
  if (same !== undefined) return same;
  if (byLimits.size >= MAX_KNOWN) byLimits.clear();
  const known: Known = {
    ofClass: new WeakMap(),
    heads: new WeakMap(),
    owners: new WeakMap(),
    ownersOfTree: new WeakMap(),
    kept: new WeakMap(),
    trees: new WeakMap(),
    ofTree: new WeakMap(),
  };
  byLimits.set(atLimit, known);
  return known;
}

/** The use of a tree with all kept quota, and without that kept for requests with options: another option of them may be the one that asks. */
type KeptUse = {
  readonly kept: readonly Kept[];
  readonly withAll: QueueUse["tree"];
  readonly withSingle: QueueUse["tree"];
};

/** How the heads of a queue are summarised. */
export function headSummaries(world: World): Summaries<WaitingClass, Bounds> {
  const { ofClass, heads } = knownOf(world);
  const of = (waiting: WaitingClass): Bounds | undefined => {
    if (roomFor(waiting.ownerKind, world.ledger) === 0) return undefined;
    const bounds = ofClass.get(waiting) ?? boundsOfClass(waiting, world);
    ofClass.set(waiting, bounds);
    return bounds;
  };
  return { of, merge: mergeBounds, isCurrent: () => true, known: heads };
}

function boundsOfClass({ needs, places }: WaitingClass, { machines }: World): Bounds {
  const first = places.first()?.[0];
  if (first === undefined) throw new Error("a class without requests waits");
  return { needed: askedAmounts(needs, machines).amounts, first, oldestMs: first.createdAtMs };
}

function mergeBounds(a: Bounds, b: Bounds): Bounds {
  return {
    needed: leastOf(a.needed, b.needed),
    first: comparePlaces(a.first, b.first) <= 0 ? a.first : b.first,
    oldestMs: Math.min(a.oldestMs, b.oldestMs),
  };
}

function leastOf(a: PairAmounts, b: PairAmounts): PairAmounts {
  if (a === b) return a;
  const least = new Map<string, number>();
  for (const [pair, amount] of a) {
    const other = b.get(pair);
    if (other !== undefined) least.set(pair, Math.min(amount, other));
  }
  return least;
}

/** Which trees have a queue whose own quota may suffice for one of its requests now. */
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
  // The requests behind one that work is preempted for may keep quota, as `findKept` finds.
  const last = node.queue.strategy === "StrictFIFO" ? findUnservedHead(node, world) : undefined;
  const heads = requests.heads.summary(headSummaries(world), last);
  const used = useWithLeft(world).get(node.queue.name) ?? NO_PAIRS;
  return heads !== undefined && suffices({ node, used }, limitedBounds(heads, node), poolAmounts(world.machines));
}

/** The use of the queues after preempted work has left and its beneficiaries have been granted. */
function useWithLeft({ ledger: { use } }: World): QueueUse["tree"] {
  return use.later ?? use.tree;
}

/** The requests that the queue itself may admit. */
function requestsOf({ node, requests }: WaitingTree): QueuedRequests | undefined {
  return node.problem === undefined ? requests : undefined;
}

/** The last place that the queue admits; undefined: it admits each. */
function lastPlaceOf({ node }: WaitingTree, world: World): Place | undefined {
  return node.queue.strategy === "StrictFIFO" ? findStrictHead(node, world) : undefined;
}

function limitedBounds({ needed }: Bounds, node: QueueNode): PairAmounts {
  return new Map([...needed].filter(([pair]) => isLimited(node, pair)));
}

/** Whether the quota of the queue, with those below it, suffices for so much more. */
function suffices({ node, used }: Pick<WaitingTree, "node" | "used">, asked: PairAmounts, pools: PairAmounts): boolean {
  for (const [pair, amount] of asked) if ((used.get(pair) ?? 0) + amount > totalOf(node, pair, pools)) return false;
  return true;
}

/**
 * The use of the queues with what is kept from the borrowers of the tree: for each of its queues the first request that its own quota suffices for, and that
 * waits because others borrow that quota. A queue that may reclaim it from all others keeps nothing, nor do requests that work is preempted for already. What
 * is kept for the request at this place with one of its options is not kept from its others. `keptIn`: a world that this one has come from, where what comes
 * free is for those that it was kept for, too.
 */
export function useWithKept(node: QueueNode, place: Place, world: World, keptIn = world): QueueUse["tree"] {
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

function firstUnserved(places: Iterable<Place>, beneficiaries: ReadonlySet<number>): Place | undefined {
  for (const place of places) if (!beneficiaries.has(place.sequence)) return place;
  return undefined;
}

/** Quota that a request keeps from borrowers. */
type Kept = { readonly node: QueueNode; readonly asked: PairAmounts; readonly place: Place };

/** Which requests keep quota from borrowers, and which. */
function* findKept(tree: WaitingTree, world: World): Generator<Kept> {
  const { node, children } = tree;
  const { ledger, machines, attainable = machines } = world;
  for (const [, child] of children.search(ownerSummaries(world), () => true)) yield* findKept(child, world);
  if (node.queue.reclaim === "Any") return;
  const strictHead = node.queue.strategy === "StrictFIFO" ? findUnservedHead(node, world) : undefined;
  const beneficiaries = new Set(ledger.beneficiaries.map(({ sequence }) => sequence));
  const quotas = { use: ledger.use.tree, pools: poolAmounts(machines) };
  for (const waiting of requestsOf(tree)?.heads.values() ?? []) {
    const place = firstUnserved(waiting.places.keys(), beneficiaries);
    if (place === undefined || (strictHead !== undefined && strictHead.sequence !== place.sequence)) continue;
    const asked = limitedAmounts(node, askedAmounts(waiting.needs, machines).amounts);
    const isShortNow = findShortage(asked, (pair) => freeOf(node, pair, quotas)) !== undefined;
    if (!isShortNow || levelOf(node, asked, { ...quotas, use: useWithLeft(world) }) > 0) continue;
    if (roomFor(waiting.ownerKind, ledger) === 0 || !isPossible(waiting, attainable)) continue;
    yield { node, asked, place };
    return;
  }
}

/**
 * How the requests in queues are summarised, so that a search skips those that their quota stops. A change of a queue or of its use changes the summaries on
 * its path to the root, and no others. `overdueSinceMs`: quota is kept for requests that are older.
 */
export function treeSummaries(world: World, overdueSinceMs: number): Summaries<WaitingTree, TreeBounds> {
  const { trees, ofTree } = knownOf(world);
  // `overdueSinceMs` is -Infinity, too, where no request is ever overdue.
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
    besideKept: leastOf(a.besideKept, b.besideKept),
    asked: leastOf(a.asked, b.asked),
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
  const pools = poolAmounts(world.machines);
  const admitted = below.admitted.flatMap((each) => boundsAbove(tree, each, pools) ?? []);
  const isDecided = node.parent !== undefined || admitted.every(({ isOwner }) => isOwner);
  return { ...below, admitted: isDecided ? admitted : admitted.filter(mayAdmit(node, world)) };
}

function boundsOfQueue(tree: WaitingTree, { heads }: QueuedRequests, world: World, overdueSinceMs: number): TreeBounds {
  const { node } = tree;
  const pools = poolAmounts(world.machines);
  const summaries = headSummaries(world);
  const last = lastPlaceOf(tree, world);
  const all = heads.summary(summaries, last);
  const { held, ...times } = findHeld(tree, heads, world, overdueSinceMs);
  const end = last ?? heads.last()?.[0];
  const hasBehind = held !== undefined && end !== undefined && comparePlaces(held.place, end) < 0;
  const admitted: AdmittedBounds[] = [];
  const add = (bounds: Bounds | undefined, kept: PairAmounts | undefined): void => {
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
  return { ...times, held, admitted };
}

/**
 * The first request of the queue that has waited too long, that the queue's own quota suffices for, whether or not it is used now, and that is possible; and
 * between which times this is so.
 */
function findHeld(
  { node }: WaitingTree,
  heads: QueuedRequests["heads"],
  world: World,
  overdueSinceMs: number,
): Pick<TreeBounds, "held" | "fromMs" | "untilMs"> {
  const { pools } = quotaWorldOf(world);
  const totalFor = (pair: string): number => (isLimited(node, pair) ? totalOf(node, pair, pools) : Infinity);
  let untilMs = Infinity;
  for (const [place, waiting] of heads.search(headSummaries(world), ({ needed }) => !isShort(needed, totalFor))) {
    if (place.createdAtMs >= overdueSinceMs) untilMs = Math.min(untilMs, place.createdAtMs);
    else if (isPossible(waiting, world.attainable ?? world.machines)) {
      const asked = limitedAmounts(node, askedAmounts(waiting.needs, world.machines).amounts);
      return { held: { place: endOf(place), asked }, fromMs: place.createdAtMs, untilMs };
    }
  }
  return { held: undefined, fromMs: -Infinity, untilMs };
}

/** The bounds of the requests in a tree among the queues of its parent; undefined: the limits of the queue admit none of them now. */
function boundsAbove(
  tree: WaitingTree,
  below: Omit<AdmittedBounds, "best"> & { readonly best?: Standing },
  pools: PairAmounts,
): AdmittedBounds | undefined {
  const { node, used, pastShare } = tree;
  const needed = neededByAll(tree, below.needed, pools);
  const besideKept = neededByAll(tree, below.besideKept, pools);
  if (needed === undefined || besideKept === undefined) return undefined;
  const usedThen = new Map(used);
  const asked = new Map<string, number>();
  for (const [pair, amount] of below.asked) {
    const usedNow = used.get(pair) ?? 0;
    usedThen.set(pair, usedNow + amount);
    asked.set(pair, countedByParent(node, pair, usedNow + amount) - countedByParent(node, pair, usedNow));
  }
  const isNear = below.best?.level === 0 || suffices(tree, below.asked, pools);
  const share = withPastShare(shareOf(node, usedThen, { pools }), pastShare);
  const best = { isLast: false, level: isNear ? 0 : 1, share, place: below.first };
  return { ...below, needed, besideKept, asked, best };
}

function neededByAll({ node, used }: WaitingTree, needed: PairAmounts, pools: PairAmounts): PairAmounts | undefined {
  const above = new Map<string, number>();
  for (const [pair, amount] of needed) {
    const ofParent = neededOfParent(node, pair, { needed: amount, used: used.get(pair) ?? 0, pools });
    if (ofParent === undefined) return undefined;
    above.set(pair, ofParent);
  }
  return above;
}

export function isShort(needed: PairAmounts, freeFor: FreeAmounts): boolean {
  for (const [pair, amount] of needed) if (amount > freeFor(pair)) return true;
  return false;
}

/** The free amounts for the requests of a queue. */
export function freeForRequests(node: QueueNode, world: World): FreeAmounts {
  const quotas = quotaWorldOf(world);
  return onlyOnce((pair) => (isLimited(node, pair) ? freeOf(node, pair, quotas) : Infinity));
}

/** Whether the free amounts of a queue may suffice for one of some requests below it. */
export function mayAdmit(node: QueueNode, world: World): (admitted: AdmittedBounds) => boolean {
  const quotas = quotaWorldOf(world);
  const free = onlyOnce((pair) => freeOfTree(node, pair, quotas));
  const besideKept = onlyOnce((pair) => {
    const use = keptUseOf(node, world)?.withSingle ?? quotas.use;
    return freeOfTree(node, pair, { ...quotas, use });
  });
  return (each) => !isShort(each.needed, free) && (each.isOwner || !isShort(each.besideKept, besideKept));
}

/** The best rank that admitted requests may have; undefined: none has one. */
export function bestRank<Rank>(
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

/** Caches the function for each pair. */
function onlyOnce(compute: FreeAmounts): FreeAmounts {
  const known = new Map<string, number>();
  return (pair) => {
    const value = known.get(pair) ?? compute(pair);
    known.set(pair, value);
    return value;
  };
}
