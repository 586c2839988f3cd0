import { compareAdmitted, knownReservation, type AdmittedKey } from "../ledger/ledger.ts";
import type { PreemptionReason, Reservation } from "../ledger/reservation.ts";
import { forestOf, limitedAmounts, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts, type Preemptible } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { findShortage, freeOf, levelOf, totalOf } from "../ledger/quota.ts";
import { compareShares, shareOf, type Share } from "../ledger/share.ts";
import type { Place, WaitingClass } from "../ledger/waiting-queue.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { findQuotaTooSmall, isPossible, quotaWorldOf } from "./find-queue-obstacle.ts";
import { obstacleTo, type HoldPolicy, type Obstacle } from "./fit.ts";
import { findHolds } from "./find-hold.ts";
import { withoutWork } from "./future.ts";
import { isPreemptible } from "./plan-preemptions.ts";

export type Victims = readonly { readonly sequence: number; readonly reason: PreemptionReason }[];

type Search = {
  readonly victims: Victims | undefined;
  /** When more work may be preempted, which has had its machines for too short a time now. */
  readonly againAtMs: number | undefined;
};

/** Limit of victims of one request: a larger set is not looked for. */
const MAX_VICTIMS = 500;

/** Granted work that the request may preempt, in order. `use`: what of it is limited by quotas. */
type Candidate = {
  readonly reservation: Reservation;
  readonly node: QueueNode;
  readonly use: PairAmounts;
  readonly reason: PreemptionReason;
};

/** What is asked, of whom, and in which world. */
type Question = {
  readonly waiting: WaitingClass;
  readonly place: Place;
  readonly node: QueueNode;
  readonly asked: PairAmounts;
  readonly world: World;
  /** Whether the request can be granted in such a world. */
  readonly fits: (world: World) => boolean;
};

/**
 * The work that has to end so that the request can be granted: none of it can be left out, and it is really enough, in the future world in which all that leaves
 * has left. Tried in this order: reclaiming what the queue owns and others borrow, taking from queues with larger shares, and both of them with work of its own
 * queue. Candidates are taken in order, those of other queues first, then those of the own one; in each the lowest priority first, then the one granted last.
 * Then each is spared again, the last one first, where the others are enough without it: as Kueue does.
 */
export function findVictims(
  waiting: WaitingClass,
  place: Place,
  { present, future: world }: { readonly present: World; readonly future: World },
  policy: HoldPolicy,
  nowMs: number,
): Search {
  const none = { victims: undefined, againAtMs: undefined };
  const node = forestOf(world.ledger.queues).get(waiting.queue ?? "");
  if (node === undefined) return none;
  const holds = findHolds(world, policy, nowMs);
  const question: Question = {
    ...{ waiting, place, node, world },
    asked: limitedAmounts(node, askedAmounts(waiting.needs, world.machines).amounts),
    fits: (after) => obstacleTo(waiting, place, after, holds) === undefined,
  };
  if (!isHelped(obstacleTo(waiting, place, world, holds), question)) return none;
  const { others, own, againAtMs } = listCandidates(question, present, nowMs);
  const { tree } = world.ledger.use;
  const withoutOwn = own.reduce((use, candidate) => withoutUse(use, candidate), tree);
  const reclaimed = selectReclaimed(question, others, tree);
  const overShare = selectOverShare(question, others);
  const lists = [reclaimed, overShare];
  if (own.length > 0)
    lists.push(addOwn(selectReclaimed(question, others, withoutOwn), own), addOwn(overShare, own), { candidates: own });
  for (const list of lists) {
    const victims = findEnough(question, list);
    if (victims !== undefined)
      return { victims: victims.map(({ reservation: { sequence }, reason }) => ({ sequence, reason })), againAtMs };
  }
  return { victims: undefined, againAtMs };
}

/** `maxLevel`: how far from the queue the quota may be that suffices for the request in the end (`levelOf`). */
type Selected = { readonly candidates: readonly Candidate[]; readonly maxLevel?: number };

function addOwn({ candidates, ...limit }: Selected, own: readonly Candidate[]): Selected {
  return { candidates: candidates.length === 0 ? [] : [...candidates, ...own], ...limit };
}

/** Reasons to wait that the end of other work can remove. */
const HELPED = new Set([
  "POOL_AVAILABILITY",
  "WAITING_FOR_TOPOLOGY",
  "HELD_FOR_OLDER",
  "WAITING_FOR_QUOTA",
  "KEPT_FOR_OWNER",
]);

function isHelped(obstacle: Obstacle | undefined, { waiting, node, world }: Question): boolean {
  if (obstacle === undefined || !HELPED.has(obstacle.code)) return false;
  return findQuotaTooSmall(node, waiting, world.machines) === undefined && isPossible(waiting, world.machines);
}

/** Candidates of other queues and of the own one, each in their order. */
function listCandidates(
  question: Question,
  present: World,
  nowMs: number,
): {
  readonly others: readonly Candidate[];
  readonly own: readonly Candidate[];
  readonly againAtMs: number | undefined;
} {
  const { node, place, world } = question;
  const found = { others: [] as Candidate[], own: [] as Candidate[] };
  let againAtMs: number | undefined;
  const spared = knownReservation(world.ledger, place.sequence).preemptedFor;
  for (const queue of queuesBelow(node.path.at(-1) ?? node)) {
    const isOwn = queue === node;
    if (isOwn ? node.queue.withinQueue === undefined : !isBorrowing(question, queue, world.ledger.use.tree)) continue;
    const { minRunTimeMs = 0 } = queue.queue;
    for (const { sequence, grantedAtMs } of world.ledger.admitted.get(queue.queue.name)?.keys() ?? []) {
      const reservation = knownReservation(present.ledger, sequence);
      if (sequence === spared || !isPreemptible(reservation, queue)) continue;
      const { use } = reservation.grant ?? {};
      if (use === undefined || (isOwn && !isBehind(reservation, question))) continue;
      if (![...question.asked.keys()].some((pair) => use.has(pair))) continue;
      if (grantedAtMs + minRunTimeMs > nowMs) {
        againAtMs = Math.min(againAtMs ?? Number.POSITIVE_INFINITY, grantedAtMs + minRunTimeMs);
        continue;
      }
      const candidate = { reservation, node: queue, use: limitedAmounts(queue, use), reason: "WITHIN_QUEUE" as const };
      (isOwn ? found.own : found.others).push(candidate);
    }
  }
  found.others.sort((a, b) => compareAdmitted(admittedKey(a), admittedKey(b)));
  return { ...found, againAtMs };
}

function admittedKey({ reservation: { priority, sequence, grant } }: Candidate): AdmittedKey {
  return { priority, sequence, grantedAtMs: grant?.atMs ?? 0 };
}

function* queuesBelow(node: QueueNode): Generator<QueueNode> {
  yield node;
  for (const child of node.children) yield* queuesBelow(child);
}

/** Whether work of the own queue may be preempted: of lower priority, or submitted later with the same. */
function isBehind({ priority, sequence }: Reservation, { place, node }: Question): boolean {
  if (priority !== place.priority) return priority < place.priority;
  return node.queue.withinQueue === "Any" && sequence > place.sequence;
}

/** The queues above both, from the lowest one; the last queues of each path before it. */
function meet(
  a: QueueNode,
  b: QueueNode,
): { readonly below: readonly QueueNode[]; readonly childOfA: QueueNode; readonly childOfB: QueueNode } {
  const index = b.path.findIndex((each) => a.path.includes(each));
  const common = b.path[index];
  const below = b.path.slice(0, index);
  const childOfA = a.path[(common === undefined ? 0 : a.path.indexOf(common)) - 1] ?? a;
  return { below, childOfA, childOfB: below.at(-1) ?? b };
}

/** Whether the queue, and each one above it up to where it meets the queue of the request, uses more than it owns of something that is asked for. */
function isBorrowing({ node, asked, world }: Question, other: QueueNode, use: QueueUse["tree"]): boolean {
  const { pools } = quotaWorldOf(world);
  return meet(node, other).below.every((each) => {
    const used = use.get(each.queue.name);
    return used !== undefined && [...asked.keys()].some((pair) => (used.get(pair) ?? 0) > totalOf(each, pair, pools));
  });
}

function withoutUse(use: QueueUse["tree"], { node, use: amounts }: Candidate): QueueUse["tree"] {
  return withTreeUse(use, node, amounts, -1);
}

function mayTake(policy: Preemptible | undefined, { reservation }: Candidate, { place }: Question): boolean {
  return policy === "Any" || (policy === "LowerPriority" && reservation.priority < place.priority);
}

/**
 * Borrowers outside the smallest subtree whose quota covers the request, as long as they borrow. A request that no quota below the root covers must borrow
 * itself: it takes only borrowers of lower priority, as far as its queue states.
 */
function selectReclaimed(question: Question, others: readonly Candidate[], start: QueueUse["tree"]): Selected {
  const { node, asked, place, world } = question;
  const { reclaim, whileBorrowing } = node.queue;
  const level = levelOf(node, asked, { ...quotaWorldOf(world), use: start });
  const covering = node.path[level];
  const isTaken = (candidate: Candidate): boolean => {
    const { priority } = candidate.reservation;
    if (covering !== undefined && !candidate.node.path.includes(covering) && mayTake(reclaim, candidate, question))
      return true;
    return level > 0 && whileBorrowing !== undefined && priority < place.priority && priority <= whileBorrowing;
  };
  const candidates: Candidate[] = [];
  let use = start;
  for (const candidate of others) {
    if (!isTaken(candidate) || !isBorrowing(question, candidate.node, use)) continue;
    candidates.push({ ...candidate, reason: "RECLAIM" });
    use = withoutUse(use, candidate);
  }
  return { candidates, ...(whileBorrowing === undefined && { maxLevel: level }) };
}

/**
 * Work of queues with larger shares, of the one with the largest share first: while the share of the request's queue with it is at most theirs afterwards, and
 * then while it is below theirs before (the two rules of Kueue's fair sharing).
 */
function selectOverShare(question: Question, others: readonly Candidate[]): Selected {
  const { node, asked, world } = question;
  const quotas = quotaWorldOf(world);
  const eligible = others.filter((candidate) => mayTake(node.queue.fairSharing, candidate, question));
  const candidates: Candidate[] = [];
  let use = withTreeUse(quotas.use, node, asked, 1);
  const share = (each: QueueNode, used = use): Share => shareOf(each, used.get(each.queue.name) ?? NO_PAIRS, quotas);
  const take = (
    all: readonly Candidate[],
    isFair: (mine: Share, before: Share, after: Share) => boolean,
  ): Candidate[] => {
    const rest: Candidate[] = [];
    const waitingByQueue = Map.groupBy(all, (each) => each.node);
    for (let queue = largestShare([...waitingByQueue.keys()], share); queue !== undefined;) {
      const [candidate, ...others] = waitingByQueue.get(queue) ?? [];
      if (candidate === undefined || !isBorrowing(question, queue, use)) waitingByQueue.delete(queue);
      else {
        const { childOfA, childOfB } = meet(node, queue);
        const without = withoutUse(use, candidate);
        if (isFair(share(childOfA), share(childOfB), share(childOfB, without))) {
          candidates.push({ ...candidate, reason: "FAIR_SHARING" });
          use = without;
        } else rest.push(candidate);
        waitingByQueue.set(queue, others);
      }
      queue = largestShare([...waitingByQueue.keys()], share);
    }
    return rest;
  };
  const rest = take(eligible, (mine, _before, after) => compareShares(mine, after) <= 0);
  take(rest, (mine, before) => compareShares(mine, before) < 0);
  return { candidates };
}

/** The queue with the largest share: two are compared below the queue where they meet. */
function largestShare(queues: readonly QueueNode[], share: (node: QueueNode) => Share): QueueNode | undefined {
  const [first, ...rest] = queues;
  if (first === undefined) return undefined;
  return rest.reduce((largest, other) => {
    const { childOfA, childOfB } = meet(largest, other);
    return compareShares(share(childOfB), share(childOfA)) > 0 ? other : largest;
  }, first);
}

/** The first candidates that are enough, without those that the others are enough without; undefined: all together are not enough. */
function findEnough(question: Question, { candidates, maxLevel }: Selected): readonly Candidate[] | undefined {
  const { world, node, asked } = question;
  const fits = (after: World): boolean => {
    if (maxLevel !== undefined && levelOf(node, asked, quotaWorldOf(after)) > maxLevel) return false;
    return question.fits(after);
  };
  let short = 0;
  let notEnough = world;
  let count = countForQuota(question, candidates);
  const remove = (start: World, from: number, to: number): World =>
    candidates.slice(from, to).reduce((after, { reservation }) => withoutWork(after, reservation), start);
  // The number of candidates grows by more each time; then the smallest number that is enough is between the last two.
  let enough: World | undefined;
  for (let step = 1; count <= Math.min(candidates.length, MAX_VICTIMS); step *= 2) {
    const after = remove(notEnough, short, count);
    if (fits(after)) {
      enough = after;
      break;
    }
    [notEnough, short] = [after, count];
    if (count === candidates.length) return undefined;
    count = Math.min(count + step, candidates.length);
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
    if (findShortage(asked, (pair) => freeOf(node, pair, { ...quotas, use })) === undefined) return index + 1;
  }
  return candidates.length + 1;
}

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
