import { getReservation, type PreemptionOrderKey } from "../ledger/ledger.ts";
import type { PreemptionReason } from "../ledger/reservation.ts";
import { getForest, sumLimitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts, type Preemptible } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { findShortage, computeFreeQuota, computeQuotaTotal } from "../ledger/quota.ts";
import type { QueuePosition } from "../ledger/waiting-queue.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { sumRequestedAmounts } from "./sum-requested-amounts.ts";
import { findKeptShortage } from "./find-queue-obstacle.ts";
import { findQuotaTooSmall, isPossible, buildQuotaWorld } from "./queue-heads.ts";
import {
  findObstacle,
  findBeneficiaryObstacle,
  NO_HOLDS,
  type Demand,
  type OverdueHolds,
  type GrantObstacle,
} from "./fit.ts";
import { withoutWork } from "./future.ts";
import {
  isBeyondMinimum,
  listBorrowers,
  listWork,
  selectBorrowers,
  compareLosses,
  withoutUse,
  type Candidate,
  type QuotaNeed,
  type QueueWork,
} from "./list-candidates.ts";
import { selectByShare } from "./select-by-share.ts";

/** The victims of one request. */
export type Victims = readonly { readonly sequence: number; readonly reason: PreemptionReason }[];

const REASONS: readonly PreemptionReason[] = ["RECLAIM", "FAIR_SHARING", "WITHIN_QUEUE"];

/** Ranks victims by reason, lowest first: work of other queues before work of the request's queue. */
export function computeVictimRank(victims: Victims): number {
  return Math.min(...victims.map(({ reason }) => REASONS.indexOf(reason)));
}

export type VictimSearch = {
  readonly victims: Victims | undefined;
  /** Time at which more work becomes preemptible, because its minimum run time is over. */
  readonly againAtMs: number | undefined;
  /** True if no set of `MAX_VICTIMS` suffices although more work may be preempted. */
  readonly isLimited: boolean;
};

/** `holds`: the holds of the future world. */
export type SearchWorlds = { readonly present: World; readonly future: World; readonly holds: OverdueHolds };

/** Limit of victims per request; larger sets are not searched. */
export const MAX_VICTIMS = 2000;

/** Preemptible work of other queues and of the request's queue, in order of preemption. */
type Candidates = {
  readonly own: Iterable<Candidate>;
  /** A function, because only some attempts preempt work of other queues. */
  readonly listOthers: () => readonly QueueWork[];
  readonly againAtMs: () => number | undefined;
};

/** The preempting request, its queue, and the world that it must fit. */
type Preemptor = QuotaNeed & {
  readonly waiting: Demand;
  readonly place: QueuePosition;
  readonly asked: PairAmounts;
  /** Whether the request can be granted in this world. */
  readonly fits: (world: World) => boolean;
};

/** A search for victims among the first candidates. `within`: this queue and those below it must not exceed their quota afterwards. */
type Attempt = {
  readonly candidates: readonly Candidate[];
  readonly reason: PreemptionReason;
  readonly within?: QueueNode;
};

/**
 * Finds work that must end so that the request can be granted in the future, in which all leaving work has left. The victims suffice, and none of them can be
 * omitted.
 *
 * Searches in this order: quota that the queue or one above it owns and others borrow; queues with larger shares; the request's own queue, which also completes
 * the other two. Takes candidates in their order, then spares each that the others make unnecessary, the last one first, as Kueue does. Members beyond the
 * minimum of their jobs come before all other candidates.
 */
export function findVictims(
  waiting: Demand,
  place: QueuePosition,
  { present, future, holds }: SearchWorlds,
  nowMs: number,
): VictimSearch {
  const preemptor = describePreemptor(waiting, place, future, holds);
  if (preemptor === undefined) return { victims: undefined, againAtMs: undefined, isLimited: false };
  const candidates = listCandidates(preemptor, present, nowMs);
  let isLimited = false;
  for (const attempt of attempts(preemptor, candidates)) {
    const isOwn = attempt.reason === "WITHIN_QUEUE";
    const victims = findSmallestSet(preemptor, attempt);
    isLimited ||= victims === undefined && attempt.candidates.length >= MAX_VICTIMS;
    // Leave victims that all belong to the request's own queue to the last attempt.
    if (victims === undefined || (!isOwn && victims.every(({ node }) => node === preemptor.node))) continue;
    const reasonOf = ({ node }: Candidate): PreemptionReason =>
      node === preemptor.node ? "WITHIN_QUEUE" : attempt.reason;
    const named = victims.map((each) => ({ sequence: each.reservation.sequence, reason: reasonOf(each) }));
    return { victims: named, againAtMs: candidates.againAtMs(), isLimited };
  }
  return { victims: undefined, againAtMs: candidates.againAtMs(), isLimited };
}

/** Obstacles that preemption can remove. */
const REMOVABLE_OBSTACLES = new Set<GrantObstacle["code"]>([
  "POOL_AVAILABILITY",
  "WAITING_FOR_TOPOLOGY",
  "HELD_FOR_OLDER",
  "WAITING_FOR_QUOTA",
  "KEPT_FOR_OWNER",
]);

/** Returns undefined if preemption does not help the request. */
function describePreemptor(
  waiting: Demand,
  place: QueuePosition,
  world: World,
  holds: OverdueHolds,
): Preemptor | undefined {
  const node = getForest(world.ledger.queues).get(waiting.queue ?? "");
  if (node === undefined) return undefined;
  const obstacle = findObstacle(waiting, place, world, holds);
  if (obstacle === undefined || !REMOVABLE_OBSTACLES.has(obstacle.code)) return undefined;
  // Only a hold is in the way: the request waits behind it. Holds do not exclude beneficiaries, so victims would end for nothing.
  if (findObstacle(waiting, place, world, NO_HOLDS) === undefined) return undefined;
  if (findQuotaTooSmall(node, waiting, world.machines) !== undefined || !isPossible(waiting, world.machines))
    return undefined;
  const asked = sumLimitedAmounts(node, sumRequestedAmounts(waiting.needs, world.machines).amounts);
  const quotas = buildQuotaWorld(world);
  const short = [...asked].filter(([pair, amount]) => amount > computeFreeQuota(node, pair, quotas));
  return {
    ...{ waiting, place, node, asked, world },
    needed: (short.length > 0 ? short : [...asked]).map(([pair]) => pair),
    // Compute kept quota before the victims end, because afterwards more requests wait for quota that their queues own.
    fits: (after) =>
      findBeneficiaryObstacle(waiting, place, after, holds) === undefined &&
      findKeptShortage({ node, asked, place }, after, world) === undefined,
  };
}

function* attempts(preemptor: Preemptor, { own, listOthers }: Candidates): Generator<Attempt> {
  const { node, world, place } = preemptor;
  const { reclaim, fairSharing, whileBorrowing } = node.queue;
  if (reclaim !== undefined) {
    // Skip the root, because it contains every queue of the tree.
    for (const subtree of node.path.slice(0, -1)) {
      if (!mayStayWithin(subtree, preemptor, own)) continue;
      const others = listOthers().filter((each) => !each.node.path.includes(subtree));
      const select = selecting(selectBorrowers, preemptor, others, isTaken(reclaim, preemptor));
      yield* attemptsWith(own, select, { reason: "RECLAIM", within: subtree });
    }
    if (whileBorrowing !== undefined) {
      const may = ({ reservation: { priority } }: Candidate): boolean => {
        return priority < place.priority && priority <= whileBorrowing;
      };
      yield* attemptsWith(own, selecting(selectBorrowers, preemptor, listOthers(), may), { reason: "RECLAIM" });
    }
  }
  // Preempted work may not preempt by share, because two requests could preempt each other forever.
  const { preemptedFor } = getReservation(world.ledger, place.sequence);
  if (fairSharing !== undefined && preemptedFor === undefined) {
    const select = selecting(selectByShare, preemptor, listOthers(), isTaken(fairSharing, preemptor));
    yield* attemptsWith(own, select, { reason: "FAIR_SHARING" });
  }
  const few = firstOf(own, FEW_VICTIMS);
  yield { candidates: few, reason: "WITHIN_QUEUE" };
  if (few.length === FEW_VICTIMS) yield { candidates: firstOf(own, MAX_VICTIMS), reason: "WITHIN_QUEUE" };
}

/** Selects at most `limit` candidates of other queues. */
type Select = (limit: number) => readonly Candidate[];

function selecting(
  select: typeof selectByShare,
  preemptor: Preemptor,
  others: readonly QueueWork[],
  may: (candidate: Candidate) => boolean,
): Select {
  const work = others.map(({ node, candidates }): QueueWork => ({
    node,
    candidates: { [Symbol.iterator]: () => filter(candidates, may) },
  }));
  return (limit) => select(preemptor, work, limit);
}

/**
 * Tries a few candidates first, because they suffice for most requests, then all with the work of the request's own queue. Members beyond a minimum come first.
 */
function* attemptsWith(
  own: Iterable<Candidate>,
  select: Select,
  attempt: Omit<Attempt, "candidates">,
): Generator<Attempt> {
  const few = select(FEW_VICTIMS);
  if (few.length === 0) return;
  if (few.length === FEW_VICTIMS) {
    const ownFirst = few.every(isBeyondMinimum) ? [] : takeWhile(own, isBeyondMinimum);
    yield { ...attempt, candidates: compareLosses([...few, ...ownFirst]) };
  }
  const others = few.length < FEW_VICTIMS ? few : select(MAX_VICTIMS);
  yield { ...attempt, candidates: compareLosses([...others, ...firstOf(own, MAX_VICTIMS)]) };
}

/** Whether the subtree stays within its quota with the request if all preemptible work of the request's queue ends. */
function mayStayWithin(subtree: QueueNode, { node, asked, world }: Preemptor, own: Iterable<Candidate>): boolean {
  const { pools, use } = buildQuotaWorld(world);
  const then = withTreeUse(use, node, asked, 1);
  if (isWithin(subtree, then, asked, pools)) return true;
  let without = then;
  for (const candidate of own) without = withoutUse(without, candidate);
  return isWithin(subtree, without, asked, pools);
}

/** Whether the subtree stays within its quota of the requested pairs. */
function isWithin(node: QueueNode, use: QueueUse["tree"], asked: PairAmounts, pools: PairAmounts): boolean {
  const used = use.get(node.queue.name) ?? NO_PAIRS;
  return [...asked.keys()].every((pair) => (used.get(pair) ?? 0) <= computeQuotaTotal(node, pair, pools));
}

function isTaken(policy: Preemptible, { place }: Preemptor): (candidate: Candidate) => boolean {
  return ({ reservation }) => policy === "Any" || reservation.priority < place.priority;
}

function listCandidates(preemptor: Preemptor, present: World, nowMs: number): Candidates {
  const { node, place, world } = preemptor;
  const spared = getReservation(world.ledger, place.sequence).preemptedFor;
  let againAtMs: number | undefined;
  const mayLeave = ({ sequence, grantedAtMs }: PreemptionOrderKey, { queue }: QueueNode): boolean => {
    const untilMs = grantedAtMs + (queue.minRunTimeMs ?? 0);
    if (untilMs > nowMs) againAtMs = Math.min(againAtMs ?? Number.POSITIVE_INFINITY, untilMs);
    return untilMs <= nowMs && sequence !== spared;
  };
  const isOwn = (key: PreemptionOrderKey): boolean => isBehind(key, preemptor) && mayLeave(key, node);
  let others: readonly QueueWork[] | undefined;
  return {
    own: node.queue.withinQueue === undefined ? [] : listWork(node, preemptor, present, isOwn),
    listOthers: () => {
      others ??= listBorrowers(preemptor, present, mayLeave);
      return others;
    },
    againAtMs: () => againAtMs,
  };
}

/** Whether the request may preempt this work of its own queue: it has a lower priority, or the same and was submitted later. */
function isBehind({ priority, sequence }: PreemptionOrderKey, { place, node }: Preemptor): boolean {
  if (priority !== place.priority) return priority < place.priority;
  return node.queue.withinQueue === "Any" && sequence > place.sequence;
}

function* filter(candidates: Iterable<Candidate>, may: (candidate: Candidate) => boolean): Generator<Candidate> {
  for (const candidate of candidates) if (may(candidate)) yield candidate;
}

function firstOf(candidates: Iterable<Candidate>, limit: number): readonly Candidate[] {
  const first: Candidate[] = [];
  for (const candidate of candidates) {
    if (first.length === limit) break;
    first.push(candidate);
  }
  return first;
}

function takeWhile(candidates: Iterable<Candidate>, is: (candidate: Candidate) => boolean): readonly Candidate[] {
  const taken: Candidate[] = [];
  for (const candidate of candidates) {
    if (!is(candidate)) break;
    taken.push(candidate);
  }
  return taken;
}

/** Number of candidates in the first attempt. */
const FEW_VICTIMS = 32;

/** Returns the first candidates that suffice, without unnecessary ones; undefined: all candidates together do not suffice. */
function findSmallestSet(preemptor: Preemptor, { candidates, within }: Attempt): readonly Candidate[] | undefined {
  const { world, node, asked } = preemptor;
  const fits = (after: World): boolean => {
    const { use, pools } = buildQuotaWorld(after);
    if (within !== undefined && !isWithin(within, withTreeUse(use, node, asked, 1), asked, pools)) return false;
    return preemptor.fits(after);
  };
  const remove = (start: World, from: number, to: number): World =>
    candidates.slice(from, to).reduce((after, { reservation }) => withoutWork(after, reservation), start);
  const max = Math.min(candidates.length, MAX_VICTIMS);
  let [notEnough, short] = [world, 0];
  let enough: World | undefined;
  let count = countForQuota(preemptor, candidates);
  // Double the step until the candidates suffice. A binary search then finds the smallest sufficient number.
  for (let step = 1; enough === undefined && count <= max; step *= 2) {
    const after = remove(notEnough, short, count);
    if (fits(after)) enough = after;
    else [notEnough, short, count] = [after, count, count === max ? max + 1 : Math.min(count + step, max)];
  }
  if (enough === undefined) return undefined;
  while (count - short > 1) {
    const middle = Math.floor((short + count) / 2);
    const after = remove(notEnough, short, middle);
    if (fits(after)) [enough, count] = [after, middle];
    else [notEnough, short] = [after, middle];
  }
  return spareUnnecessary(candidates.slice(0, count), enough, fits);
}

/** The minimum number of first candidates, at least one, whose end lets the quota suffice. */
function countForQuota({ node, asked, world }: Preemptor, candidates: readonly Candidate[]): number {
  const quotas = buildQuotaWorld(world);
  let { use } = quotas;
  for (const [index, candidate] of candidates.entries()) {
    use = withoutUse(use, candidate);
    if (findShortage(asked, (pair) => computeFreeQuota(node, pair, { ...quotas, use, later: use })) === undefined)
      return index + 1;
  }
  return candidates.length + 1;
}

/** Returns the chosen candidates without unnecessary ones. */
function spareUnnecessary(
  chosen: readonly Candidate[],
  enough: World,
  fits: (world: World) => boolean,
): readonly Candidate[] {
  const victims = [...chosen];
  let world = enough;
  for (let index = chosen.length - 2; index >= 0; index -= 1) {
    const { reservation } = chosen[index] ?? {};
    if (reservation?.grant === undefined) continue;
    const { grant, ...requested } = reservation;
    const restored = evolveWorld(world, [
      { kind: "requested", reservation: requested, atMs: 0 },
      { kind: "granted", sequence: reservation.sequence, ...grant },
    ]);
    if (!fits(restored)) continue;
    world = restored;
    victims.splice(index, 1);
  }
  return victims;
}
