import { knownReservation, type AdmittedKey } from "../ledger/ledger.ts";
import type { PreemptionReason } from "../ledger/reservation.ts";
import { forestOf, limitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts, type Preemptible } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { findShortage, freeOf, totalOf } from "../ledger/quota.ts";
import type { Place } from "../ledger/waiting-queue.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { findKeptShortage } from "./find-queue-obstacle.ts";
import { findQuotaTooSmall, isPossible, quotaWorldOf } from "./queue-heads.ts";
import { findObstacle, findBeneficiaryObstacle, type Demand, type Holds, type Obstacle } from "./fit.ts";
import { withoutWork } from "./future.ts";
import {
  isBeyondMinimum,
  listBorrowers,
  listWork,
  selectBorrowers,
  smallestLossFirst,
  withoutUse,
  type Candidate,
  type Need,
  type QueueWork,
} from "./list-candidates.ts";
import { selectByShare } from "./select-by-share.ts";

/** The victims of one request. */
export type Victims = readonly { readonly sequence: number; readonly reason: PreemptionReason }[];

const REASONS: readonly PreemptionReason[] = ["RECLAIM", "FAIR_SHARING", "WITHIN_QUEUE"];

/** Lower for reasons that are tried first: work of other queues before work of the own one. */
export function rankOf(victims: Victims): number {
  return Math.min(...victims.map(({ reason }) => REASONS.indexOf(reason)));
}

export type Search = {
  readonly victims: Victims | undefined;
  /** When more work may be preempted, which has had its machines for too short a time now. */
  readonly againAtMs: number | undefined;
  /** No set of `MAX_VICTIMS` is enough, and more work may be preempted. */
  readonly isLimited: boolean;
};

/** `holds`: in the future. */
export type Worlds = { readonly present: World; readonly future: World; readonly holds: Holds };

/** Limit of victims of one request: a larger set is not looked for. */
export const MAX_VICTIMS = 2000;

/** Candidates of other queues, and those of the own one in their order. */
type Candidates = {
  readonly own: Iterable<Candidate>;
  /** Listed where an attempt may take them. */
  readonly listOthers: () => readonly QueueWork[];
  readonly againAtMs: () => number | undefined;
};

/** The request, the queue that asks, and the world in which it asks. */
type Question = Need & {
  readonly waiting: Demand;
  readonly place: Place;
  readonly asked: PairAmounts;
  /** Whether the request can be granted in such a world. */
  readonly fits: (world: World) => boolean;
};

/** One way to find victims: in this order, as many as are needed. `within`: this queue and those below it use no more than their quota in the end. */
type Attempt = {
  readonly candidates: readonly Candidate[];
  readonly reason: PreemptionReason;
  readonly within?: QueueNode;
};

/**
 * The work that has to end so that the request can be granted. None of it can be left out, and it is really enough, in the future world in which all that
 * leaves has left. Tried in this order: reclaiming what the queue owns and others borrow, and then what the queues above it own; taking from queues with larger
 * shares; work of the own queue, which also gives what is missing in the others. Candidates are taken in their order. Then each is spared again, the last one
 * first, where the others are enough without it, as Kueue does. Members beyond the minimum of their jobs come before all other candidates.
 */
export function findVictims(waiting: Demand, place: Place, { present, future, holds }: Worlds, nowMs: number): Search {
  const question = ask(waiting, place, future, holds);
  if (question === undefined) return { victims: undefined, againAtMs: undefined, isLimited: false };
  const candidates = listCandidates(question, present, nowMs);
  let isLimited = false;
  for (const attempt of attempts(question, candidates)) {
    const isOwn = attempt.reason === "WITHIN_QUEUE";
    const victims = findEnough(question, attempt);
    isLimited ||= victims === undefined && attempt.candidates.length >= MAX_VICTIMS;
    // Work of the own queue alone is left to the last attempt.
    if (victims === undefined || (!isOwn && victims.every(({ node }) => node === question.node))) continue;
    const reasonOf = ({ node }: Candidate): PreemptionReason =>
      node === question.node ? "WITHIN_QUEUE" : attempt.reason;
    const named = victims.map((each) => ({ sequence: each.reservation.sequence, reason: reasonOf(each) }));
    return { victims: named, againAtMs: candidates.againAtMs(), isLimited };
  }
  return { victims: undefined, againAtMs: candidates.againAtMs(), isLimited };
}

/** Reasons to wait that the end of other work can remove. */
const HELPED = new Set<Obstacle["code"]>([
  "POOL_AVAILABILITY",
  "WAITING_FOR_TOPOLOGY",
  "HELD_FOR_OLDER",
  "WAITING_FOR_QUOTA",
  "KEPT_FOR_OWNER",
]);

/** Undefined: the end of other work does not help the request. */
function ask(waiting: Demand, place: Place, world: World, holds: Holds): Question | undefined {
  const node = forestOf(world.ledger.queues).get(waiting.queue ?? "");
  if (node === undefined) return undefined;
  const obstacle = findObstacle(waiting, place, world, holds);
  if (obstacle === undefined || !HELPED.has(obstacle.code)) return undefined;
  if (findQuotaTooSmall(node, waiting, world.machines) !== undefined || !isPossible(waiting, world.machines))
    return undefined;
  const asked = limitedAmounts(node, askedAmounts(waiting.needs, world.machines).amounts);
  const quotas = quotaWorldOf(world);
  const short = [...asked].filter(([pair, amount]) => amount > freeOf(node, pair, quotas));
  return {
    ...{ waiting, place, node, asked, world },
    needed: (short.length > 0 ? short : [...asked]).map(([pair]) => pair),
    // The kept quota is that of the present: once the victims have ended, more requests wait for the quota that their queues own.
    fits: (after) =>
      findBeneficiaryObstacle(waiting, place, after, holds) === undefined &&
      findKeptShortage({ node, asked, place }, after, world) === undefined,
  };
}

function* attempts(question: Question, { own, listOthers }: Candidates): Generator<Attempt> {
  const { node, world, place } = question;
  const { reclaim, fairSharing, whileBorrowing } = node.queue;
  if (reclaim !== undefined) {
    // Nothing of the tree is outside of its root.
    for (const subtree of node.path.slice(0, -1)) {
      if (!mayStayWithin(subtree, question, own)) continue;
      const others = listOthers().filter((each) => !each.node.path.includes(subtree));
      const select = selecting(selectBorrowers, question, others, isTaken(reclaim, question));
      yield* attemptsWith(own, select, { reason: "RECLAIM", within: subtree });
    }
    if (whileBorrowing !== undefined) {
      const may = ({ reservation: { priority } }: Candidate): boolean => {
        return priority < place.priority && priority <= whileBorrowing;
      };
      yield* attemptsWith(own, selecting(selectBorrowers, question, listOthers(), may), { reason: "RECLAIM" });
    }
  }
  // Work that was preempted itself would otherwise take machines in a circle.
  const { preemptedFor } = knownReservation(world.ledger, place.sequence);
  if (fairSharing !== undefined && preemptedFor === undefined) {
    const select = selecting(selectByShare, question, listOthers(), isTaken(fairSharing, question));
    yield* attemptsWith(own, select, { reason: "FAIR_SHARING" });
  }
  const few = firstOf(own, FEW_VICTIMS);
  yield { candidates: few, reason: "WITHIN_QUEUE" };
  if (few.length === FEW_VICTIMS) yield { candidates: firstOf(own, MAX_VICTIMS), reason: "WITHIN_QUEUE" };
}

/** Selects at most so many candidates of others. */
type Select = (limit: number) => readonly Candidate[];

function selecting(
  select: typeof selectByShare,
  question: Question,
  others: readonly QueueWork[],
  may: (candidate: Candidate) => boolean,
): Select {
  const work = others.map(({ node, candidates }): QueueWork => ({
    node,
    candidates: { [Symbol.iterator]: () => where(candidates, may) },
  }));
  return (limit) => select(question, work, limit);
}

/** A few candidates are enough for most requests. All of them follow, with own work that gives the rest. Members beyond a minimum come first. */
function* attemptsWith(
  own: Iterable<Candidate>,
  select: Select,
  attempt: Omit<Attempt, "candidates">,
): Generator<Attempt> {
  const few = select(FEW_VICTIMS);
  if (few.length === 0) return;
  if (few.length === FEW_VICTIMS) {
    const ownFirst = few.every(isBeyondMinimum) ? [] : takeWhile(own, isBeyondMinimum);
    yield { ...attempt, candidates: smallestLossFirst([...few, ...ownFirst]) };
  }
  const others = few.length < FEW_VICTIMS ? few : select(MAX_VICTIMS);
  yield { ...attempt, candidates: smallestLossFirst([...others, ...firstOf(own, MAX_VICTIMS)]) };
}

/** Whether the queue and those below it use no more than its quota with the request, once all own work that may leave has left. */
function mayStayWithin(subtree: QueueNode, { node, asked, world }: Question, own: Iterable<Candidate>): boolean {
  const { pools, use } = quotaWorldOf(world);
  const then = withTreeUse(use, node, asked, 1);
  if (isWithin(subtree, then, asked, pools)) return true;
  let without = then;
  for (const candidate of own) without = withoutUse(without, candidate);
  return isWithin(subtree, without, asked, pools);
}

/** Whether the queue and those below it use no more than its quota of the requested pairs. */
function isWithin(node: QueueNode, use: QueueUse["tree"], asked: PairAmounts, pools: PairAmounts): boolean {
  const used = use.get(node.queue.name) ?? NO_PAIRS;
  return [...asked.keys()].every((pair) => (used.get(pair) ?? 0) <= totalOf(node, pair, pools));
}

function isTaken(policy: Preemptible, { place }: Question): (candidate: Candidate) => boolean {
  return ({ reservation }) => policy === "Any" || reservation.priority < place.priority;
}

function listCandidates(question: Question, present: World, nowMs: number): Candidates {
  const { node, place, world } = question;
  const spared = knownReservation(world.ledger, place.sequence).preemptedFor;
  let againAtMs: number | undefined;
  const mayLeave = ({ sequence, grantedAtMs }: AdmittedKey, { queue }: QueueNode): boolean => {
    const untilMs = grantedAtMs + (queue.minRunTimeMs ?? 0);
    if (untilMs > nowMs) againAtMs = Math.min(againAtMs ?? Number.POSITIVE_INFINITY, untilMs);
    return untilMs <= nowMs && sequence !== spared;
  };
  const isOwn = (key: AdmittedKey): boolean => isBehind(key, question) && mayLeave(key, node);
  let others: readonly QueueWork[] | undefined;
  return {
    own: node.queue.withinQueue === undefined ? [] : listWork(node, question, present, isOwn),
    listOthers: () => {
      others ??= listBorrowers(question, present, mayLeave);
      return others;
    },
    againAtMs: () => againAtMs,
  };
}

/** Whether work of the own queue may be preempted: of lower priority, or submitted later with the same. */
function isBehind({ priority, sequence }: AdmittedKey, { place, node }: Question): boolean {
  if (priority !== place.priority) return priority < place.priority;
  return node.queue.withinQueue === "Any" && sequence > place.sequence;
}

function* where(candidates: Iterable<Candidate>, may: (candidate: Candidate) => boolean): Generator<Candidate> {
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

/** How many candidates are tried before all of them. */
const FEW_VICTIMS = 32;

/** The first candidates that are enough, without those that the others are enough without; undefined: all together are not enough. */
function findEnough(question: Question, { candidates, within }: Attempt): readonly Candidate[] | undefined {
  const { world, node, asked } = question;
  const fits = (after: World): boolean => {
    const { use, pools } = quotaWorldOf(after);
    if (within !== undefined && !isWithin(within, withTreeUse(use, node, asked, 1), asked, pools)) return false;
    return question.fits(after);
  };
  const remove = (start: World, from: number, to: number): World =>
    candidates.slice(from, to).reduce((after, { reservation }) => withoutWork(after, reservation), start);
  const most = Math.min(candidates.length, MAX_VICTIMS);
  let [notEnough, short] = [world, 0];
  let enough: World | undefined;
  let count = countForQuota(question, candidates);
  // The number of candidates grows by more each time; then the smallest number that is enough is between the last two.
  for (let step = 1; enough === undefined && count <= most; step *= 2) {
    const after = remove(notEnough, short, count);
    if (fits(after)) enough = after;
    else [notEnough, short, count] = [after, count, count === most ? most + 1 : Math.min(count + step, most)];
  }
  if (enough === undefined) return undefined;
  while (count - short > 1) {
    const middle = Math.floor((short + count) / 2);
    const after = remove(notEnough, short, middle);
    if (fits(after)) [enough, count] = [after, middle];
    else [notEnough, short] = [after, middle];
  }
  return spare(candidates.slice(0, count), enough, fits);
}

/** How many of the first candidates have to end at least, so that the quota may suffice; at least one. */
function countForQuota({ node, asked, world }: Question, candidates: readonly Candidate[]): number {
  const quotas = quotaWorldOf(world);
  let { use } = quotas;
  for (const [index, candidate] of candidates.entries()) {
    use = withoutUse(use, candidate);
    if (findShortage(asked, (pair) => freeOf(node, pair, { ...quotas, use, later: use })) === undefined)
      return index + 1;
  }
  return candidates.length + 1;
}

/** Returns the chosen candidates without those that are not needed. */
function spare(chosen: readonly Candidate[], enough: World, fits: (world: World) => boolean): readonly Candidate[] {
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
