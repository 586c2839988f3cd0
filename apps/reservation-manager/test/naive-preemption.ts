import type { PreemptionReason } from "../src/domain/ledger/reservation.ts";
import {
  compareRequests,
  compareShares,
  firstOf,
  freeOf,
  isLimited,
  pathOf,
  shareOf,
  totalOf,
  usedOf,
  withUse,
  type Share,
} from "./naive-quota.ts";
import {
  admit,
  areAllServed,
  expected,
  forestIn,
  futureOf,
  grantable,
  isBesideKept,
  isInLine,
  isNotPreemptible,
  isServedWithout,
  isWithinQuota,
  keptIn,
  leavesBeside,
  policyOf,
  released,
  requestIn,
  waitingIn,
  type PreemptionWorld,
  type Work,
} from "./naive-world.ts";

/** A way to find victims. Victims of the request's own queue complete each. */
export type Attempt =
  /** Work outside of this subtree that borrows. The subtree must not exceed its quota afterwards. */
  | { readonly kind: "RECLAIM"; readonly subtree: string }
  /** Work that borrows, although the request borrows too. */
  | { readonly kind: "RECLAIM_WHILE_BORROWING" }
  | { readonly kind: "FAIR_SHARING" }
  | { readonly kind: "WITHIN_QUEUE" };

export type Victim = { readonly sequence: number; readonly reason: PreemptionReason };

type Preemption = { readonly victims: readonly Victim[]; readonly attempt: Attempt };

/** The help that a waiting request may get. */
type Help = {
  readonly work: Work;
  /** The nodes of its grant. */
  readonly nodes?: readonly string[];
  /** The nodes on which it fits without victims once all leaving work has left. */
  readonly claim?: readonly string[];
  readonly preemption?: Preemption;
};

/** Plans the next grant; undefined: no waiting request can be granted. Promises come first. */
export function planGrant(
  world: PreemptionWorld,
): { readonly sequence: number; readonly nodes: readonly string[] } | undefined {
  const helpOf = (work: Work): Help | undefined => {
    const nodes = grantable(world, work);
    return nodes && { work, nodes };
  };
  const promised = waitingIn(world)
    .filter(({ promise }) => promise !== undefined)
    .sort((a, b) => (a.promise ?? 0) - (b.promise ?? 0))
    .flatMap((work) => helpOf(work) ?? []);
  const { work, nodes = [] } = promised[0] ?? firstToHelp(world, waitingIn(world), helpOf) ?? {};
  return work && { sequence: work.sequence, nodes };
}

/** Plans the next preemption and its beneficiary; undefined: preemption helps no waiting request. */
export function planPreemption(world: PreemptionWorld): (Preemption & { readonly beneficiary: number }) | undefined {
  const next = findNextPreemption(world);
  return next && { beneficiary: next.work.sequence, ...next.preemption };
}

/** Plans in the future in which earlier beneficiaries have the machines of leaving work. */
function findNextPreemption(
  world: PreemptionWorld,
): { readonly future: PreemptionWorld; readonly work: Work; readonly preemption: Preemption } | undefined {
  let future = futureOf(world);
  for (;;) {
    const { work, claim, preemption } =
      firstToHelp(future, waitingIn(future), (each): Help | undefined => {
        const fits = nodesAfter(future, each, []);
        if (fits !== undefined) return { work: each, claim: fits };
        const found = victimsIn(future, each);
        return found && isServedBy(world, each, found) ? { work: each, preemption: found } : undefined;
      }) ?? {};
    if (work === undefined) return undefined;
    if (preemption !== undefined) return { future, work, preemption };
    // The request waits for work that already leaves, and gets the remaining machines of that work.
    if (claim !== undefined) future = expected(future, work, claim);
  }
}

/** Whether, once the victims leave for the request, the future has machines for it and still for each request that it had machines for before. */
function isServedBy(world: PreemptionWorld, { sequence }: Work, { victims }: Preemption): boolean {
  const work = world.work.map((each): Work => {
    const victim = victims.find((other) => other.sequence === each.sequence);
    if (victim !== undefined && each.grant !== undefined) {
      const leaving = { beneficiary: sequence, reason: victim.reason, deadlineMs: 0, isAccepted: false };
      return { ...each, grant: { ...each.grant, leaving } };
    }
    return each.sequence === sequence ? { promise: Number.MAX_SAFE_INTEGER, ...each } : each;
  });
  const after = { ...world, work };
  return isServedWithout(after, sequence) && areAllServed(world, after);
}

/** Returns, in the order of grants, the first of the requests that are each the first of their queue that can be helped. */
function firstToHelp(
  world: PreemptionWorld,
  waiting: readonly Work[],
  help: (work: Work) => Help | undefined,
): Help | undefined {
  const firsts = new Map<string | undefined, Help>();
  const requests = waiting.map((work) => requestIn(world, work)).sort(compareRequests);
  for (const { sequence } of requests) {
    const work = waiting.find((each) => each.sequence === sequence);
    if (work === undefined || firsts.has(work.queue)) continue;
    const found = help(work);
    if (found !== undefined) firsts.set(work.queue, found);
  }
  const helped = [...firsts.values()];
  const candidates = helped.map(({ work }) => requestIn(world, work));
  const first = firstOf(forestIn(world), candidates)?.sequence;
  return helped.find(({ work }) => work.sequence === first);
}

/** Returns the preemption for the request if it is the first in order. Undefined: it fits once all leaving work has left, or preemption does not help it. */
export function victimsOf(world: PreemptionWorld, request: number): Preemption | undefined {
  const future = futureOf(world);
  const work = waitingIn(future).find(({ sequence }) => sequence === request);
  return work === undefined || nodesAfter(future, work, []) !== undefined ? undefined : victimsIn(future, work);
}

/** Lists the attempts in their order, without those that the queue does not permit. */
export function attemptsOf(world: PreemptionWorld, work: Work): readonly Attempt[] {
  const { queue } = work;
  const forest = forestIn(world);
  const path = queue === undefined ? undefined : pathOf(forest, queue);
  if (queue === undefined || path === undefined) return [];
  const { reclaim, fairSharing, withinQueue, whileBorrowing } = policyOf(world, queue);
  const { ask } = requestIn(world, work);
  // Quota that the queues below keep for themselves is part of their use, and not of the subtree's quota.
  const alone = withUse({ ...forest, own: new Map() }, queue, ask);
  const covers = (subtree: string): boolean =>
    [...ask.keys()]
      .filter((pair) => isLimited(forest, subtree, pair))
      .every((pair) => usedOf(alone, subtree, pair) <= totalOf(forest, subtree, pair));
  // Without the root: no queue of the tree is outside of it.
  const subtrees = path
    .slice(0, -1)
    .map(({ name }) => name)
    .filter(covers);
  return [
    ...(reclaim === undefined ? [] : subtrees.map((subtree): Attempt => ({ kind: "RECLAIM", subtree }))),
    ...(reclaim === undefined || whileBorrowing === undefined ? [] : [{ kind: "RECLAIM_WHILE_BORROWING" } as const]),
    // Work that was preempted itself preempts nothing by share.
    ...(fairSharing === undefined || work.preemptedFor !== undefined ? [] : [{ kind: "FAIR_SHARING" } as const]),
    ...(withinQueue === undefined ? [] : [{ kind: "WITHIN_QUEUE" } as const]),
  ];
}

/**
 * Lists the work that the attempt may preempt: borrowers of other queues first, then the request's own queue. In each, the lowest priority comes first, then
 * the youngest. Jobs shrink to their minimum before any other work ends. Fair sharing selects the borrowers by share before that.
 */
export function candidatesOf(world: PreemptionWorld, work: Work, attempt: Attempt): readonly Work[] {
  return shrinkingFirst([...othersOf(world, work, attempt), ...ownOf(world, work)]);
}

function shrinkingFirst(candidates: readonly Work[]): readonly Work[] {
  return [true, false].flatMap((isFirst) => candidates.filter((each) => (each.beyondMinimum === true) === isFirst));
}

function othersOf(world: PreemptionWorld, work: Work, attempt: Attempt): readonly Work[] {
  const { queue } = work;
  if (queue === undefined || attempt.kind === "WITHIN_QUEUE") return [];
  const { reclaim, fairSharing, whileBorrowing } = policyOf(world, queue);
  const which = attempt.kind === "FAIR_SHARING" ? fairSharing : reclaim;
  const forest = forestIn(world);
  const leaves = leavesBeside(world, queue).filter(
    (name) =>
      attempt.kind !== "RECLAIM" || pathOf(forest, name)?.every((each) => each.name !== attempt.subtree) === true,
  );
  return world.work
    .filter((each) => each.queue !== undefined && leaves.includes(each.queue))
    .filter((each) => mayEverBePreempted(world, work, each))
    .filter(({ priority }) => {
      if (attempt.kind === "RECLAIM_WHILE_BORROWING")
        return priority < work.priority && priority <= (whileBorrowing ?? Number.NEGATIVE_INFINITY);
      return which === "Any" || (which === "LowerPriority" && priority < work.priority);
    })
    .filter((each) => isBorrowing(world, work, each, neededPairs(world, work)))
    .sort(compareCandidates);
}

function ownOf(world: PreemptionWorld, work: Work): readonly Work[] {
  const { withinQueue } = policyOf(world, work.queue);
  return world.work
    .filter((each) => each.queue !== undefined && each.queue === work.queue)
    .filter((each) => mayEverBePreempted(world, work, each))
    .filter(({ priority, sequence }) => {
      const isNewer = withinQueue === "Any" && priority === work.priority && sequence > work.sequence;
      return withinQueue !== undefined && (priority < work.priority || isNewer);
    })
    .sort(compareCandidates);
}

/** Whether the victim is granted and not leaving, has had its minimum run time, is preemptible, and has not preempted the request itself. */
function mayEverBePreempted(world: PreemptionWorld, work: Work, victim: Work): boolean {
  const { grant, queue } = victim;
  if (grant === undefined || grant.leaving !== undefined || grant.isExpected === true) return false;
  const minRunTimeMs = world.queues.find(({ name }) => name === queue)?.minRunTimeMs ?? 0;
  return (
    world.nowMs - grant.atMs >= minRunTimeMs &&
    !isNotPreemptible(world, victim) &&
    work.preemptedFor !== victim.sequence
  );
}

function compareCandidates(a: Work, b: Work): number {
  return (
    Number(b.beyondMinimum === true) - Number(a.beyondMinimum === true) ||
    a.priority - b.priority ||
    (b.grant?.atMs ?? 0) - (a.grant?.atMs ?? 0) ||
    b.sequence - a.sequence
  );
}

/** Tries each set on a copy of the future. Victims of other queues come first. */
function victimsIn(future: PreemptionWorld, work: Work): Preemption | undefined {
  for (const attempt of attemptsOf(future, work)) {
    const chosen = attempt.kind === "FAIR_SHARING" ? chooseByShare(future, work) : choose(future, work, attempt);
    if (chosen === undefined) continue;
    const spared = spare(future, work, chosen, attempt);
    // Victims of the request's own queue alone belong to the last attempt.
    if (attempt.kind !== "WITHIN_QUEUE" && spared.every(({ queue }) => queue === work.queue)) continue;
    return {
      attempt,
      victims: spared.map((victim) => ({ sequence: victim.sequence, reason: reasonOf(work, victim, attempt) })),
    };
  }
  return undefined;
}

function reasonOf(work: Work, victim: Work, { kind }: Attempt): PreemptionReason {
  if (victim.queue === work.queue) return "WITHIN_QUEUE";
  return kind === "FAIR_SHARING" ? "FAIR_SHARING" : "RECLAIM";
}

/** Adds candidates in their order until they suffice. Skips work of queues that no longer borrow. */
function choose(future: PreemptionWorld, work: Work, attempt: Attempt): readonly Work[] | undefined {
  const needed = neededPairs(future, work);
  const chosen: Work[] = [];
  for (const candidate of candidatesOf(future, work, attempt)) {
    const isOwn = candidate.queue === work.queue;
    if (!isOwn && !isBorrowing(released(future, chosen), work, candidate, needed)) continue;
    chosen.push(candidate);
    if (isEnoughFor(future, work, chosen, attempt)) return chosen;
  }
  return undefined;
}

/**
 * Adds work of the queue with the largest share while the first rule permits it, then while the second does. Own victims follow until the set suffices. Members
 * beyond a minimum come first.
 */
function chooseByShare(future: PreemptionWorld, work: Work): readonly Work[] | undefined {
  const attempt: Attempt = { kind: "FAIR_SHARING" };
  const needed = neededPairs(future, work);
  const chosen: Work[] = [];
  for (const mayTake of [isAtMostAfter, isBelowBefore]) {
    let rest = othersOf(future, work, attempt).filter((each) => !chosen.includes(each));
    for (;;) {
      const copy = released(future, chosen);
      const borrowers = rest.filter((each) => isBorrowing(copy, work, each, needed));
      const next = firstByShare(copy, borrowers);
      if (next === undefined) break;
      rest = rest.filter((each) => each !== next);
      if (mayTake(copy, work, next)) chosen.push(next);
    }
  }
  const candidates = shrinkingFirst([...chosen, ...ownOf(future, work)]);
  const counts = Array.from(candidates, (_, index) => index + 1);
  const count = counts.find((each) => isEnoughFor(future, work, candidates.slice(0, each), attempt));
  return count === undefined ? undefined : candidates.slice(0, count);
}

/** Spares the last victim first, so that the first candidates remain. */
function spare(future: PreemptionWorld, work: Work, chosen: readonly Work[], attempt: Attempt): readonly Work[] {
  const rest = chosen.reduceRight((kept, each) => {
    const others = kept.filter((other) => other !== each);
    return isEnoughFor(future, work, others, attempt) ? others : kept;
  }, chosen);
  // Work that could not be spared before may be placed differently now.
  return rest.length === chosen.length ? rest : spare(future, work, rest, attempt);
}

/** Returns the first work of the queue with the largest share at each level of the tree. The order of candidates breaks ties. */
function firstByShare(world: PreemptionWorld, candidates: readonly Work[]): Work | undefined {
  const forest = forestIn(world);
  const firstBelow = (name: string): Work | undefined => {
    const children = world.queues.filter(({ parent }) => parent === name);
    if (children.length === 0)
      return candidates
        .filter(({ queue }) => queue === name)
        .sort(compareCandidates)
        .at(0);
    return children
      .flatMap((child) => {
        const first = firstBelow(child.name);
        return first === undefined ? [] : [{ first, share: shareOf(forest, child.name) }];
      })
      .sort((a, b) => compareShares(b.share, a.share) || compareCandidates(a.first, b.first))
      .at(0)?.first;
  };
  // All candidates are of one tree.
  return world.queues
    .filter(({ parent }) => parent === undefined)
    .flatMap(({ name }) => firstBelow(name) ?? [])
    .at(0);
}

/** Whether the share of the beneficiary afterwards is at most that of the victim afterwards. */
function isAtMostAfter(world: PreemptionWorld, work: Work, victim: Work): boolean {
  const { beneficiary, after } = sharesOf(world, work, victim);
  return compareShares(beneficiary, after) <= 0;
}

/** Whether the share of the beneficiary afterwards is below that of the victim before. */
function isBelowBefore(world: PreemptionWorld, work: Work, victim: Work): boolean {
  const { beneficiary, before } = sharesOf(world, work, victim);
  return compareShares(beneficiary, before) < 0;
}

/** The shares of the two children of the first common ancestor of both queues. */
function sharesOf(
  world: PreemptionWorld,
  work: Work,
  victim: Work,
): { readonly beneficiary: Share; readonly before: Share; readonly after: Share } {
  const forest = forestIn(world);
  const [own, others] = [pathNames(world, work), pathNames(world, victim)];
  // A queue with work may have got queues below it, including that of the other work.
  const ofWork = own.findLast((name) => !others.includes(name)) ?? work.queue ?? "";
  const ofVictim = others.findLast((name) => !own.includes(name)) ?? victim.queue ?? "";
  const afterwards = withUse(forestIn(released(world, [victim])), work.queue ?? "", requestIn(world, work).ask);
  return {
    beneficiary: shareOf(afterwards, ofWork),
    before: shareOf(forest, ofVictim),
    after: shareOf(afterwards, ofVictim),
  };
}

/** Whether each subtree that contains the victim but not the request exceeds its quota of a pair that is needed and that the victim uses. */
function isBorrowing(world: PreemptionWorld, work: Work, victim: Work, needed: readonly string[]): boolean {
  const forest = forestIn(world);
  const own = pathNames(world, work);
  const subtrees = pathNames(world, victim).filter((name) => !own.includes(name));
  return needed
    .filter((pair) => (victim.grant?.use.get(pair) ?? 0) > 0)
    .some((pair) => subtrees.every((name) => usedOf(forest, name, pair) > totalOf(forest, name, pair)));
}

/** The pairs whose quota is short for the request; if only machines are short, all pairs that it requests. */
function neededPairs(world: PreemptionWorld, work: Work): readonly string[] {
  const { queue } = work;
  if (queue === undefined) return [];
  const forest = forestIn(world);
  const asked = [...requestIn(world, work).ask].filter(([pair]) => isLimited(forest, queue, pair));
  const short = asked.filter(([pair, amount]) => BigInt(amount) > freeOf(forest, queue, pair));
  return (short.length > 0 ? short : asked).map(([pair]) => pair);
}

function pathNames(world: PreemptionWorld, { queue }: Work): readonly string[] {
  return queue === undefined ? [] : (pathOf(forestIn(world), queue)?.map(({ name }) => name) ?? []);
}

/** Returns the nodes of the request if these victims were gone, beside the quota that waiting owners keep from borrowers; undefined: it does not fit. */
function nodesAfter(future: PreemptionWorld, work: Work, victims: readonly Work[]): readonly string[] | undefined {
  const after = released(future, victims);
  const nodes = admit(after, work);
  if (nodes === undefined || !isInLine(future, work)) return undefined;
  return isBesideKept(after, keptIn(future, waitingIn(future)), work) ? nodes : undefined;
}

function isEnoughFor(future: PreemptionWorld, work: Work, victims: readonly Work[], attempt: Attempt): boolean {
  const nodes = nodesAfter(future, work, victims);
  if (nodes === undefined) return false;
  if (attempt.kind !== "RECLAIM") return true;
  const afterwards = expected(released(future, victims), work, nodes);
  return isWithinQuota(afterwards, attempt.subtree, requestIn(future, work).ask);
}

/** Whether the request fits once these victims and all leaving work are gone. */
export function isEnough(world: PreemptionWorld, request: number, victims: readonly number[]): boolean {
  const { future, work, chosen } = futureWith(world, request, victims);
  return work !== undefined && nodesAfter(future, work, chosen) !== undefined;
}

/** Whether the victims suffice for an attempt, and the attempt needs each of them. */
export function isMinimal(world: PreemptionWorld, request: number, victims: readonly number[]): boolean {
  const { future, work, chosen } = futureWith(world, request, victims);
  return work !== undefined && attemptsOf(future, work).some((attempt) => isMinimalFor(future, work, chosen, attempt));
}

function isMinimalFor(future: PreemptionWorld, work: Work, chosen: readonly Work[], attempt: Attempt): boolean {
  const isNeeded = (victim: Work): boolean => {
    const others = chosen.filter((each) => each !== victim);
    return !isEnoughFor(future, work, others, attempt);
  };
  return isEnoughFor(future, work, chosen, attempt) && chosen.every(isNeeded);
}

/**
 * Whether each attempt for which the victims suffice has an unnecessary one. Undefined: the reference chooses other nodes, preempts for another request next,
 * or finds that the victims do not suffice.
 */
export function isTooMany(
  world: PreemptionWorld,
  beneficiary: number,
  victims: readonly number[],
): boolean | undefined {
  const { future, work } = findNextPreemption(world) ?? {};
  if (future === undefined || work?.sequence !== beneficiary) return undefined;
  const chosen = future.work.filter(({ sequence }) => victims.includes(sequence));
  const attempts = attemptsOf(future, work).filter((attempt) => isEnoughFor(future, work, chosen, attempt));
  return attempts.length === 0 ? undefined : !attempts.some((each) => isMinimalFor(future, work, chosen, each));
}

function futureWith(world: PreemptionWorld, request: number, victims: readonly number[]) {
  const future = futureOf(world);
  const work = waitingIn(future).find(({ sequence }) => sequence === request);
  return { future, work, chosen: future.work.filter(({ sequence }) => victims.includes(sequence)) };
}
