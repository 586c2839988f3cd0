import { compareAdmitted, knownReservation, type AdmittedKey, type Ledger } from "../ledger/ledger.ts";
import type { PreemptionReason, Reservation } from "../ledger/reservation.ts";
import { forestOf, limitedAmounts, withQueuesBelow, type QueueNode } from "../ledger/queue-forest.ts";
import { NO_PAIRS, type PairAmounts, type Preemptible } from "../ledger/queue.ts";
import { withTreeUse, type QueueUse } from "../ledger/queue-use.ts";
import { findShortage, freeOf, totalOf } from "../ledger/quota.ts";
import { compareShares, shareOf, type Share } from "../ledger/share.ts";
import type { Place, WaitingClass } from "../ledger/waiting-queue.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { isBesideKept } from "./find-queue-obstacle.ts";
import { findQuotaTooSmall, isPossible, quotaWorldOf } from "./queue-heads.ts";
import { isPreemptible } from "./is-preemptible.ts";
import { obstacleTo, type Holds, type Obstacle } from "./fit.ts";
import { withoutWork } from "./future.ts";

/** Of one request. */
export type Victims = readonly { readonly sequence: number; readonly reason: PreemptionReason }[];

type Search = {
  readonly victims: Victims | undefined;
  /** When more work may be preempted, which has had its machines for too short a time now. */
  readonly againAtMs: number | undefined;
};

/** Limit of victims of one request: a larger set is not looked for. */
const MAX_VICTIMS = 2000;

/** Granted work that may be preempted. `use`: what of it is limited by quotas. */
type Candidate = { readonly reservation: Reservation; readonly node: QueueNode; readonly use: PairAmounts };

/** Candidates of other queues and of the own one, each in their order: the lowest priority first, then the one granted last. */
type Candidates = {
  readonly own: readonly Candidate[];
  /** Listed where an attempt may take them. */
  readonly listOthers: () => readonly Candidate[];
  readonly againAtMs: () => number | undefined;
};

/** What is asked, of whom, and in which world. */
type Question = {
  readonly waiting: WaitingClass;
  readonly place: Place;
  readonly node: QueueNode;
  readonly asked: PairAmounts;
  /** The pairs whose quota is short; where none is, all that are asked for. */
  readonly needed: readonly string[];
  readonly world: World;
  /** Whether the request can be granted in such a world. */
  readonly fits: (world: World) => boolean;
};

/** One way to find victims: in this order, as many as are needed. `within`: this queue and those below it use no more than their quota in the end. */
type Attempt = {
  readonly candidates: readonly Candidate[];
  readonly reason: PreemptionReason;
  readonly within?: QueueNode;
  /** The first candidates, which are enough for most requests. The same attempt with all of them follows. */
  readonly isPartial?: true;
};

/**
 * The work that has to end so that the request can be granted. None of it can be left out, and it is really enough, in the future world in which all that
 * leaves has left. Tried in this order: reclaiming what the queue owns and others borrow, and then what the queues above it own; taking from queues with larger
 * shares; work of the own queue, which also gives what is missing in the others. Candidates are taken in their order. Then each is spared again, the last one
 * first, where the others are enough without it, as Kueue does.
 */
export function findVictims(
  waiting: WaitingClass,
  place: Place,
  { present, future, holds }: { readonly present: World; readonly future: World; readonly holds: Holds },
  nowMs: number,
): Search {
  const question = ask(waiting, place, future, holds);
  if (question === undefined) return { victims: undefined, againAtMs: undefined };
  const candidates = listCandidates(question, present, nowMs);
  const { own } = candidates;
  for (const attempt of attempts(question, candidates)) {
    const isOwn = attempt.reason === "WITHIN_QUEUE";
    if (!isOwn && attempt.candidates.length === 0) continue;
    const isAlone = isOwn || attempt.isPartial === true;
    const victims = findEnough(
      question,
      isAlone ? attempt : { ...attempt, candidates: [...attempt.candidates, ...own] },
    );
    // Work of the own queue alone is left to the last attempt.
    if (victims === undefined || (!isOwn && victims.every(({ node }) => node === question.node))) continue;
    const reasonOf = ({ node }: Candidate): PreemptionReason =>
      node === question.node ? "WITHIN_QUEUE" : attempt.reason;
    const named = victims.map((each) => ({ sequence: each.reservation.sequence, reason: reasonOf(each) }));
    return { victims: named, againAtMs: candidates.againAtMs() };
  }
  return { victims: undefined, againAtMs: candidates.againAtMs() };
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
function ask(waiting: WaitingClass, place: Place, world: World, holds: Holds): Question | undefined {
  const node = forestOf(world.ledger.queues).get(waiting.queue ?? "");
  if (node === undefined) return undefined;
  const obstacle = obstacleTo(waiting, place, world, holds);
  if (obstacle === undefined || !HELPED.has(obstacle.code)) return undefined;
  if (findQuotaTooSmall(node, waiting, world.machines) !== undefined || !isPossible(waiting, world.machines))
    return undefined;
  const asked = limitedAmounts(node, askedAmounts(waiting.needs, world.machines).amounts);
  const quotas = quotaWorldOf(world);
  const short = [...asked].filter(([pair, amount]) => amount > freeOf(node, pair, quotas));
  return {
    ...{ waiting, place, node, asked, world },
    needed: (short.length > 0 ? short : [...asked]).map(([pair]) => pair),
    fits: (after) => obstacleTo(waiting, place, after, holds) === undefined && isBesideKept(node, asked, after, world),
  };
}

function* attempts(question: Question, { own, listOthers }: Candidates): Generator<Attempt> {
  const { node, asked, world, place } = question;
  const { reclaim, fairSharing, whileBorrowing } = node.queue;
  const { pools, use } = quotaWorldOf(world);
  if (reclaim !== undefined) {
    const then = withTreeUse(own.reduce(withoutUse, use), node, asked, 1);
    // Nothing of the tree is outside of its root.
    for (const subtree of node.path.slice(0, -1)) {
      if (!isWithin(subtree, then, asked, pools)) continue;
      const others = listOthers().filter(
        (each) => !each.node.path.includes(subtree) && mayTake(reclaim, each, question),
      );
      yield* attemptsWith(question, others, { reason: "RECLAIM", within: subtree });
    }
    if (whileBorrowing !== undefined) {
      const others = listOthers().filter(({ reservation: { priority } }) => {
        return priority < place.priority && priority <= whileBorrowing;
      });
      yield* attemptsWith(question, others, { reason: "RECLAIM" });
    }
  }
  // Work that was preempted itself would otherwise take machines in a circle.
  const { preemptedFor } = knownReservation(world.ledger, place.sequence);
  if (fairSharing !== undefined && preemptedFor === undefined) {
    const others = listOthers().filter((each) => mayTake(fairSharing, each, question));
    yield { candidates: selectByShare(question, others), reason: "FAIR_SHARING" };
  }
  yield { candidates: own, reason: "WITHIN_QUEUE" };
}

/** Whether the queue and those below it use no more than its quota of what is asked for. */
function isWithin(node: QueueNode, use: QueueUse["tree"], asked: PairAmounts, pools: PairAmounts): boolean {
  const used = use.get(node.queue.name) ?? NO_PAIRS;
  return [...asked.keys()].every((pair) => (used.get(pair) ?? 0) <= totalOf(node, pair, pools));
}

function mayTake(policy: Preemptible, { reservation }: Candidate, { place }: Question): boolean {
  return policy === "Any" || reservation.priority < place.priority;
}

function listCandidates(question: Question, present: World, nowMs: number): Candidates {
  const { node, place, world } = question;
  const spared = knownReservation(world.ledger, place.sequence).preemptedFor;
  let againAtMs: number | undefined;
  const isOldEnough = ({ reservation: { grant }, node: queue }: Candidate): boolean => {
    const untilMs = (grant?.atMs ?? 0) + (queue.queue.minRunTimeMs ?? 0);
    if (untilMs <= nowMs) return true;
    againAtMs = Math.min(againAtMs ?? Number.POSITIVE_INFINITY, untilMs);
    return false;
  };
  const mayLeave = (candidate: Candidate): boolean =>
    candidate.reservation.sequence !== spared && isOldEnough(candidate);
  const own = node.queue.withinQueue === undefined ? [] : listBehind(question, present).filter(mayLeave);
  let others: readonly Candidate[] | undefined;
  return {
    own,
    listOthers: () => {
      others ??= listBorrowers(question, present).filter(mayLeave);
      return others;
    },
    againAtMs: () => againAtMs,
  };
}

/** Work of the own queue that the request comes before. */
function listBehind(question: Question, { ledger }: World): readonly Candidate[] {
  const { node, place, world } = question;
  const behind: Candidate[] = [];
  for (const { sequence, priority } of world.ledger.admitted.get(node.queue.name)?.keys() ?? []) {
    if (priority > place.priority) break;
    const candidate = candidateOf(sequence, node, ledger);
    if (candidate !== undefined && isBehind(candidate.reservation, question)) behind.push(candidate);
  }
  return behind;
}

function listBorrowers(question: Question, present: World): readonly Candidate[] {
  const { node, world } = question;
  const { use } = quotaWorldOf(world);
  const borrowed = new Map<QueueNode, readonly string[]>();
  return candidatesOfTree(node.path.at(-1) ?? node, world, present).filter((candidate) => {
    if (candidate.node === node) return false;
    const pairs = borrowed.get(candidate.node) ?? borrowedPairs(question, candidate.node, use);
    borrowed.set(candidate.node, pairs);
    return pairs.some((pair) => (candidate.use.get(pair) ?? 0) > 0);
  });
}

type KnownCandidates = { readonly present: Ledger; readonly byRoot: Map<QueueNode, readonly Candidate[]> };

const knownCandidates = new WeakMap<Ledger, KnownCandidates>();

/** All work of the tree that may be preempted, in order: listed once for all requests of one plan. */
function candidatesOfTree(root: QueueNode, { ledger }: World, present: World): readonly Candidate[] {
  const before = knownCandidates.get(ledger);
  const known: KnownCandidates =
    before?.present === present.ledger ? before : { present: present.ledger, byRoot: new Map() };
  knownCandidates.set(ledger, known);
  const same = known.byRoot.get(root);
  if (same !== undefined) return same;
  const candidates = [...withQueuesBelow(root)].flatMap((queue) =>
    [...(ledger.admitted.get(queue.queue.name)?.keys() ?? [])].flatMap(
      ({ sequence }) => candidateOf(sequence, queue, present.ledger) ?? [],
    ),
  );
  candidates.sort(compareCandidates);
  known.byRoot.set(root, candidates);
  return candidates;
}

/** Undefined: it is not granted at present, or it is not to be preempted. */
function candidateOf(sequence: number, node: QueueNode, { reservations }: Ledger): Candidate | undefined {
  const reservation = reservations.get(sequence);
  const { use } = reservation?.grant ?? {};
  if (reservation === undefined || use === undefined || !isPreemptible(reservation, node)) return undefined;
  return { reservation, node, use: limitedAmounts(node, use) };
}

function compareCandidates(a: Candidate, b: Candidate): number {
  return compareAdmitted(admittedKey(a), admittedKey(b));
}

function admittedKey({ reservation: { priority, sequence, grant } }: Candidate): AdmittedKey {
  return { priority, sequence, grantedAtMs: grant?.atMs ?? 0 };
}

/** Whether work of the own queue may be preempted: of lower priority, or submitted later with the same. */
function isBehind({ priority, sequence }: Reservation, { place, node }: Question): boolean {
  if (priority !== place.priority) return priority < place.priority;
  return node.queue.withinQueue === "Any" && sequence > place.sequence;
}

/** Of the path of the other queue, what is below the queue where it meets the path of the own one; and of that path the child of that queue. */
function meet(own: QueueNode, other: QueueNode): { readonly below: readonly QueueNode[]; readonly child: QueueNode } {
  const at = other.path.findIndex((each) => own.path.includes(each));
  const meeting = other.path[at];
  const child = own.path[(meeting === undefined ? 0 : own.path.indexOf(meeting)) - 1] ?? own;
  return { below: other.path.slice(0, at), child };
}

/** The needed pairs that the queue borrows, as does each queue above it up to the first one that has the request below it. */
function borrowedPairs({ node, needed, world }: Question, other: QueueNode, use: QueueUse["tree"]): readonly string[] {
  const { pools } = quotaWorldOf(world);
  const { below } = meet(node, other);
  return needed.filter((pair) =>
    below.every((each) => (use.get(each.queue.name)?.get(pair) ?? 0) > totalOf(each, pair, pools)),
  );
}

/** Whether the queue of the candidate borrows something that is needed and that the candidate uses. */
function isBorrowing(question: Question, { node, use: ofCandidate }: Candidate, use: QueueUse["tree"]): boolean {
  return borrowedPairs(question, node, use).some((pair) => (ofCandidate.get(pair) ?? 0) > 0);
}

function withoutUse(use: QueueUse["tree"], { node, use: amounts }: Candidate): QueueUse["tree"] {
  return withTreeUse(use, node, amounts, -1);
}

const FEW_VICTIMS = 32;

function* attemptsWith(
  question: Question,
  others: readonly Candidate[],
  attempt: Omit<Attempt, "candidates">,
): Generator<Attempt> {
  const few = selectBorrowers(question, others, FEW_VICTIMS);
  if (few.length === FEW_VICTIMS) yield { ...attempt, candidates: few, isPartial: true };
  yield { ...attempt, candidates: few.length < FEW_VICTIMS ? few : selectBorrowers(question, others, MAX_VICTIMS) };
}

/** Those that borrow when it is their turn, the first ones. */
function selectBorrowers(question: Question, others: readonly Candidate[], limit: number): readonly Candidate[] {
  const selected: Candidate[] = [];
  let use = question.world.ledger.use.tree;
  for (const candidate of others) {
    if (selected.length === limit) break;
    if (!isBorrowing(question, candidate, use)) continue;
    selected.push(candidate);
    use = withoutUse(use, candidate);
  }
  return selected;
}

/**
 * Work of queues with larger shares, of the one with the largest share first: while the share of the request's queue with it is at most theirs afterwards, and
 * then while it is below theirs before (the two rules of Kueue's fair sharing).
 */
function selectByShare(question: Question, others: readonly Candidate[]): readonly Candidate[] {
  const { node, asked, world } = question;
  const quotas = quotaWorldOf(world);
  const selected: Candidate[] = [];
  let { use } = quotas;
  const shareIn = (used: QueueUse["tree"], each: QueueNode): Share => {
    return shareOf(each, used.get(each.queue.name) ?? NO_PAIRS, quotas);
  };
  const isFair = (candidate: Candidate, rule: "at most after" | "below before"): boolean => {
    const { below, child } = meet(node, candidate.node);
    const theirs = below.at(-1) ?? candidate.node;
    const afterwards = withTreeUse(withoutUse(use, candidate), node, asked, 1);
    const mine = shareIn(afterwards, child);
    if (rule === "at most after") return compareShares(mine, shareIn(afterwards, theirs)) <= 0;
    return compareShares(mine, shareIn(use, theirs)) < 0;
  };
  let left = others;
  for (const rule of ["at most after", "below before"] as const) {
    const passed: Candidate[] = [];
    for (;;) {
      const rest = left.filter((candidate) => isBorrowing(question, candidate, use));
      const next = firstByShare(node.path.at(-1) ?? node, rest, (each) => shareIn(use, each));
      if (next === undefined) break;
      left = rest.filter((each) => each !== next);
      if (isFair(next, rule)) {
        selected.push(next);
        use = withoutUse(use, next);
      } else passed.push(next);
    }
    left = passed;
  }
  return selected;
}

/** The first candidate of the queue with the largest share: compared from the root to the leaves, and with equal shares by their first candidates. */
function firstByShare(
  node: QueueNode,
  candidates: readonly Candidate[],
  share: (node: QueueNode) => Share,
): Candidate | undefined {
  if (node.children.length === 0) return candidates.find((each) => each.node === node);
  const firsts = node.children.flatMap((child) => {
    const below = candidates.filter((each) => each.node.path.includes(child));
    const first = below.length === 0 ? undefined : firstByShare(child, below, share);
    return first === undefined ? [] : [{ first, share: share(child) }];
  });
  return firsts.sort((a, b) => compareShares(b.share, a.share) || compareCandidates(a.first, b.first))[0]?.first;
}

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

/** Those of the chosen that are needed. */
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
