import { canOccupy, type Owner } from "@muster/names";
import type { Amounts } from "@muster/resources";
import type { ReservationRequest } from "../src/domain/decisions/check-request.ts";
import type { Ledger } from "../src/domain/ledger/ledger.ts";
import type { NodeFacts } from "../src/domain/ledger/machines.ts";
import { buildPairKey, type PairAmounts, type Queue } from "../src/domain/ledger/queue.ts";
import type { Need, PreemptionReason, Reservation } from "../src/domain/ledger/reservation.ts";
import { accepts, NaiveLedger } from "./naive-ledger.ts";
import {
  fits,
  isLeaf,
  isLimited,
  keptOf,
  levelFor,
  levelOf,
  lineOf,
  pathOf,
  problemOf,
  usedOf,
  totalOf,
  withUse,
  type Forest,
  type QueuedRequest,
} from "./naive-quota.ts";

/** Which work the requests of a queue may preempt. */
export type PreemptionPolicy = Pick<Queue, "reclaim" | "fairSharing" | "withinQueue" | "whileBorrowing">;

/** A preemption that has not ended yet. */
export type Leaving = {
  /** Sequence of its beneficiary, which may have ended. Undefined: the queue of the work is drained. */
  readonly beneficiary?: number;
  readonly reason: PreemptionReason;
  readonly deadlineMs: number;
  readonly isAccepted: boolean;
};

/** A request, and its grant. */
export type Work = {
  readonly sequence: number;
  readonly owner: Owner;
  readonly queue?: string;
  readonly needs: readonly Need[];
  readonly topology?: string;
  readonly priority: number;
  readonly createdAtMs: number;
  readonly notPreemptible?: boolean;
  /** The owner can work without it. */
  readonly beyondMinimum?: boolean;
  readonly graceMs?: number;
  /** Sequence of the request that it was last preempted for. */
  readonly preemptedFor?: number;
  /** Other work was preempted for it, and it waits for that work to leave. A later promise has a higher number. */
  readonly promise?: number;
  /** Undefined: it waits. */
  readonly grant?: {
    readonly atMs: number;
    readonly nodes: readonly string[];
    readonly use: PairAmounts;
    readonly leaving?: Leaving;
    /** Set only in the future: the work still waits, and holds nothing. */
    readonly isExpected?: boolean;
  };
};

/** The input of every decision. The functions compute their results from it alone, without an index or a cache. */
export type PreemptionWorld = {
  readonly queues: readonly Queue[];
  readonly nodes: readonly NodeFacts[];
  readonly work: readonly Work[];
  /** Pods, still ending, of work that released its machines for a waiting request. */
  readonly vacated?: readonly Vacated[];
  readonly nowMs: number;
};

type Vacated = { readonly owner: Owner; readonly node: string };

/** The input of a decision. */
export type KnownWorld = { readonly ledger: Ledger; readonly nodes: readonly NodeFacts[]; readonly nowMs: number };

/** Converts a ledger to the world of the reference, which computes everything from reservations and nodes. */
export function naiveWorldOf({ ledger, nodes, nowMs }: KnownWorld): PreemptionWorld {
  const promises = new Map(ledger.beneficiaries.map(({ sequence }, index) => [sequence, index + 1]));
  const work = [...ledger.reservations.values()].map((reservation) =>
    toWork(reservation, promises.get(reservation.sequence)),
  );
  const vacated = ledger.beneficiaries.flatMap((each) => each.vacated);
  return { queues: [...ledger.queues.values()], nodes, work, vacated, nowMs };
}

function toWork({ grant, ...asked }: Reservation, promise: number | undefined): Work {
  return {
    ...asked,
    ...(promise !== undefined && { promise }),
    ...(grant !== undefined && { grant: toNaiveGrant(grant) }),
  };
}

function toNaiveGrant({
  atMs,
  machines,
  use = new Map(),
  preemption,
}: NonNullable<Reservation["grant"]>): NonNullable<Work["grant"]> {
  return {
    atMs,
    nodes: machines.map(({ node }) => node),
    use,
    ...(preemption !== undefined && { leaving: preemption }),
  };
}

export function policyOf({ queues }: PreemptionWorld, queue: string | undefined): PreemptionPolicy {
  return queues.find(({ name }) => name === queue) ?? {};
}

export function forestIn(world: PreemptionWorld): Forest {
  const { queues, nodes, work } = world;
  const usable = nodes.filter(({ ready, schedulable, taints }) => ready && (schedulable || taints.length > 0));
  const allocatable = sumOf(usable.map(({ pool, allocatable: size }) => inPool(pool ?? "", size ?? new Map())));
  const granted = work.filter(({ queue, grant }) => queue !== undefined && grant !== undefined);
  const own = queues.map(({ name }): [string, PairAmounts] => {
    const uses = granted.filter(({ queue }) => queue === name).flatMap(({ grant }) => grant?.use ?? []);
    return [name, sumOf(uses)];
  });
  const listWaiting = (): readonly QueuedRequest[] =>
    waitingIn(world)
      .filter((each) => isPossible(world, each))
      .map((each) => requestIn(world, each));
  const passing = granted.flatMap(({ grant, ...each }) =>
    grant === undefined || grant.isExpected === true ? [] : [{ ...each, ask: grant.use, grantedAtMs: grant.atMs }],
  );
  return { queues, own: new Map(own), allocatable, listWaiting, granted: passing };
}

/** The request with its amounts: a whole machine counts as the smallest machine that the need accepts. */
export function requestIn({ nodes }: PreemptionWorld, work: Work): QueuedRequest {
  const asks = work.needs.map(({ pool, shared, selection }) => {
    if (shared !== undefined) return inPool(pool, withPod(shared));
    const sizes = nodes
      .filter((node) => node.pool === pool && node.ready && accepts(node, selection))
      .flatMap(({ allocatable }) => allocatable ?? []);
    const least = [...(sizes[0]?.keys() ?? [])].map((resource): [string, number] => {
      return [resource, Math.min(...sizes.map((size) => size.get(resource) ?? 0))];
    });
    return inPool(pool, new Map(least));
  });
  return { ...work, ask: sumOf(asks) };
}

/** The use of the quota by these nodes, in the order of the needs. */
export function useOn({ nodes }: PreemptionWorld, { needs }: Work, placed: readonly string[]): PairAmounts {
  const uses = needs.map(({ pool, shared }, index) => {
    const size = nodes.find(({ name }) => name === placed[index])?.allocatable ?? new Map<string, number>();
    return inPool(pool, shared === undefined ? size : withPod(shared));
  });
  return sumOf(uses);
}

export function waitingIn(world: PreemptionWorld): readonly Work[] {
  return world.work.filter(({ grant }) => grant === undefined);
}

/** Returns the world after this work and its pods have left. */
export function released(world: PreemptionWorld, gone: readonly Work[]): PreemptionWorld {
  const stays = (owner: Owner): boolean => gone.every((each) => !canOccupy(owner, each.owner));
  const nodes = world.nodes.map((node): NodeFacts => ({
    ...node,
    occupants: node.occupants.filter(stays),
    ownerUses: node.ownerUses.filter(({ owner }) => stays(owner)),
  }));
  const work = world.work.filter(({ sequence }) => gone.every((each) => each.sequence !== sequence));
  return { ...world, nodes, work };
}

/** Returns the world after all leaving work has gone, before any grant. */
export function withoutLeaving({ vacated = [], ...world }: PreemptionWorld): PreemptionWorld {
  const leaving = world.work.filter(({ grant }) => grant?.leaving !== undefined);
  const nodes = world.nodes.map((facts): NodeFacts => {
    const stays = (owner: Owner): boolean =>
      vacated.every((each) => each.node !== facts.name || !canOccupy(owner, each.owner));
    return {
      ...facts,
      occupants: facts.occupants.filter(stays),
      ownerUses: facts.ownerUses.filter(({ owner }) => stays(owner)),
    };
  });
  return released({ ...world, nodes }, leaving);
}

/** Returns the world in which the work has these nodes as soon as others have left. */
export function expected(world: PreemptionWorld, { sequence }: Work, nodes: readonly string[]): PreemptionWorld {
  const grant = (each: Work): Work => ({
    ...each,
    grant: { atMs: world.nowMs, nodes, use: useOn(world, each, nodes), isExpected: true },
  });
  return { ...world, work: world.work.map((each) => (each.sequence === sequence ? grant(each) : each)) };
}

/**
 * Returns the world after all leaving work has gone and each beneficiary has its promised machines, the earliest promise first. A beneficiary that does not fit
 * waits there as well, for example after the loss of a node, and nothing is kept for it. `promisedBefore`: ignores this and later promises.
 */
export function futureOf(world: PreemptionWorld, promisedBefore = Number.POSITIVE_INFINITY): PreemptionWorld {
  return waitingIn(world)
    .filter(({ promise }) => promise !== undefined && promise < promisedBefore)
    .sort((a, b) => (a.promise ?? 0) - (b.promise ?? 0))
    .reduce((future, work) => {
      const nodes = admit(future, work);
      return nodes === undefined ? future : expected(future, work, nodes);
    }, withoutLeaving(world));
}

/** Whether the future keeps the promised machines for the work. */
export function isServed(future: PreemptionWorld, { sequence, promise }: Work): boolean {
  return promise !== undefined && waitingIn(future).every((each) => each.sequence !== sequence);
}

/**
 * Returns the nodes that the work would get now; undefined: it is not granted. It breaks no promise and gets nothing that `future` keeps for others, whatever
 * its priority. A beneficiary waits behind no head of its queue, and no quota is kept from it. `owners` are the requests that quota is kept for.
 */
export function grantable(
  world: PreemptionWorld,
  work: Work,
  future: PreemptionWorld = futureOf(world),
  owners: readonly Work[] = waitingIn(world),
): readonly string[] | undefined {
  if (admit(world, work) === undefined) return undefined;
  if (!mayGo(world, work, owners)) return undefined;
  const hasPromise = isServed(futureOf(world), work);
  const others = hasPromise ? futureOf(withdrawnFor(world, work), work.promise) : future;
  const nodes = admit(world, work, others);
  return nodes !== undefined && keepsPromises(world, work, nodes) ? nodes : undefined;
}

/**
 * Returns whether the work may be granted on these nodes, which have room for it. The reference may place others differently in the future, and then finds
 * none.
 */
export function mayHave(world: PreemptionWorld, work: Work, nodes: readonly string[]): boolean {
  return mayGo(world, work, waitingIn(world)) && keepsPromises(world, work, nodes);
}

/** Returns whether neither the head of its queue nor quota kept for `owners` blocks the work; they never block a beneficiary. */
function mayGo(world: PreemptionWorld, work: Work, owners: readonly Work[]): boolean {
  if (isServed(futureOf(world), work)) return true;
  const unserved = owners.filter((each) => !isServed(futureOf(world), each));
  return isInLine(world, work) && isBesideKept(world, keptIn(world, unserved), work);
}

/** Returns whether every beneficiary that the future serves stays served after the grant, with all of the work's victims spared that can be. */
function keepsPromises(world: PreemptionWorld, work: Work, nodes: readonly string[]): boolean {
  return areAllServed(world, expected(withdrawnFor(world, work), work, nodes));
}

/** Returns whether every beneficiary served in the future of one world is served in that of the other, also after one of them is cancelled. */
export function areAllServed(before: PreemptionWorld, after: PreemptionWorld): boolean {
  return [undefined, ...sparingIn(before)].every((cancelled) => {
    const [was, is] = [before, after].map((world) => futureWithout(world, cancelled));
    return before.work.every((each) => !was || !is || !isServed(was, each) || isServed(is, each));
  });
}

/** Returns whether the future serves the beneficiary, whichever other one is cancelled. */
export function isServedWithout(world: PreemptionWorld, beneficiary: number): boolean {
  const others = sparingIn(world).filter(({ sequence }) => sequence !== beneficiary);
  const work = world.work.find(({ sequence }) => sequence === beneficiary);
  return (
    work !== undefined && [undefined, ...others].every((cancelled) => isServed(futureWithout(world, cancelled), work))
  );
}

/** Lists the beneficiaries whose end spares work. */
function sparingIn(world: PreemptionWorld): readonly Work[] {
  return waitingIn(world).filter(({ sequence, promise }) => {
    return promise !== undefined && world.work.some((each) => isToBeWithdrawn(each, sequence));
  });
}

function futureWithout(world: PreemptionWorld, cancelled: Work | undefined): PreemptionWorld {
  return futureOf(cancelled === undefined ? world : released(withdrawnFor(world, cancelled), [cancelled]));
}

/** Returns the world without the work's victims, except those whose owners have begun to end them. */
export function withdrawnFor(world: PreemptionWorld, { sequence: beneficiary }: Work): PreemptionWorld {
  const work = world.work.map((each): Work => {
    if (!isToBeWithdrawn(each, beneficiary) || each.grant === undefined) return each;
    const { leaving: _, ...grant } = each.grant;
    return { ...each, grant };
  });
  return { ...world, work };
}

export function isToBeWithdrawn({ grant }: Work, beneficiary: number): boolean {
  return grant?.leaving?.beneficiary === beneficiary && !grant.leaving.isAccepted;
}

/** Returns whether the order of its queue permits a grant of the work. */
export function isInLine(world: PreemptionWorld, work: Work): boolean {
  if (work.queue === undefined) return true;
  const possible = waitingIn(world).filter((each) => mayEverStart(world, each));
  const line = lineOf(
    forestIn(world),
    work.queue,
    possible.map((each) => requestIn(world, each)),
  );
  return line.some(({ sequence }) => sequence === work.sequence);
}

/** Returns whether its machines exist, granted or not. */
export function isPossible(world: PreemptionWorld, work: Work): boolean {
  const nodes = world.nodes.map((node) => ({ ...node, occupants: [], ownerUses: [] }));
  return place({ ...world, nodes, work: [] }, work) !== undefined;
}

/** Whether its machines exist, and it needs no forbidden borrowing. Its quota is for `lineOf`. */
function mayEverStart(world: PreemptionWorld, work: Work): boolean {
  return isPossible(world, work) && mayBorrow({ ...world, work: [] }, work);
}

type Kept = readonly { readonly queue: string; readonly ask: PairAmounts }[];

/** The part of their quota that waiting owners keep from borrowers. A queue that may reclaim from any priority keeps none. */
export function keptIn(world: PreemptionWorld, waiting: readonly Work[]): Kept {
  const forest = forestIn(world);
  const requests = waiting
    .filter((work) => policyOf(world, work.queue).reclaim !== "Any" && mayEverStart(world, work))
    .map((work) => requestIn(world, work));
  const future = forestIn(futureOf(world));
  return world.queues.flatMap(({ name }) => {
    const kept = keptOf(forest, name, requests, future);
    return kept === undefined ? [] : [{ queue: name, ask: kept.ask }];
  });
}

/** Whether the work borrows nothing, or fits beside the kept quota. */
export function isBesideKept(world: PreemptionWorld, kept: Kept, work: Work): boolean {
  if (work.queue === undefined || problemOf(forestIn(world), work.queue) !== undefined) return true;
  const forest = forestIn(world);
  const request = requestIn(world, work);
  const { ask } = request;
  if (levelFor(forest, request) === 0) return true;
  return fits(
    kept.reduce((seen, { queue, ask: other }) => withUse(seen, queue, other), forest),
    work.queue,
    ask,
  );
}

/** Returns nodes with quota and machines for the work, ignoring its order; undefined: none fit. It must fit into `later` too. */
export function admit(world: PreemptionWorld, work: Work, later?: PreemptionWorld): readonly string[] | undefined {
  const { ask } = requestIn(world, work);
  if (!hasQuota(world, work, ask) || (later !== undefined && !hasQuota(later, work, ask))) return undefined;
  if (!mayBorrow(world, work)) return undefined;
  const nodes = place(world, work, later);
  if (nodes === undefined) return undefined;
  const use = useOn(world, work, nodes);
  return hasQuota(world, work, use) && (later === undefined || hasQuota(later, work, use)) ? nodes : undefined;
}

function hasQuota(world: PreemptionWorld, { queue }: Work, ask: PairAmounts): boolean {
  if (queue === undefined) return true;
  const forest = forestIn(world);
  return problemOf(forest, queue) === undefined && fits(forest, queue, ask);
}

/** Owner kinds that end their work when the ledger preempts it. */
const PREEMPTIBLE_KINDS: readonly string[] = ["job", "batch-job", "job-set", "queued-pod"];

/** An opt-out counts only if the queue permits it. Owners of other kinds never end their work. */
export function isNotPreemptible({ queues }: PreemptionWorld, { owner, queue, notPreemptible }: Work): boolean {
  if (!PREEMPTIBLE_KINDS.includes(owner.kind)) return true;
  return notPreemptible === true && queues.find(({ name }) => name === queue)?.permitsNonPreemptible === true;
}

/** Returns false if the work may not be preempted, would borrow, and another queue of the tree may reclaim. */
export function mayBorrow(world: PreemptionWorld, work: Work): boolean {
  const { queue } = work;
  if (queue === undefined || !isNotPreemptible(world, work)) return true;
  const forest = forestIn(world);
  if (levelOf(forest, queue, requestIn(world, work).ask) === 0) return true;
  return leavesBeside(world, queue).every((name) => policyOf(world, name).reclaim === undefined);
}

/** Lists the other leaves of the tree. */
export function leavesBeside(world: PreemptionWorld, queue: string): readonly string[] {
  const forest = forestIn(world);
  const root = pathOf(forest, queue)?.at(-1);
  return world.queues
    .map(({ name }) => name)
    .filter((name) => name !== queue && isLeaf(forest, name))
    .filter((name) => root !== undefined && pathOf(forest, name)?.at(-1) === root);
}

/** Returns whether the subtree at the queue uses at most its quota of the requested pairs. */
export function isWithinQuota(world: PreemptionWorld, subtree: string, ask: PairAmounts): boolean {
  const forest = forestIn(world);
  return [...ask.keys()]
    .filter((pair) => isLimited(forest, subtree, pair))
    .every((pair) => usedOf(forest, subtree, pair) <= totalOf(forest, subtree, pair));
}

function place(world: PreemptionWorld, work: Work, later?: PreemptionWorld): readonly string[] | undefined {
  return machinesOf(world).place(toRequest(work), later && machinesOf(later));
}

function machinesOf({ nodes, work }: PreemptionWorld): NaiveLedger {
  const ledger = new NaiveLedger(nodes, Number.POSITIVE_INFINITY);
  for (const each of work) if (each.grant !== undefined) ledger.occupy(toRequest(each), each.grant.nodes);
  return ledger;
}

function toRequest({ owner, needs, priority, topology }: Work): ReservationRequest {
  return { owner, needs, priority, wait: true, concurrencyLimit: 0, ...(topology !== undefined && { topology }) };
}

function withPod(shared: Amounts): Amounts {
  return new Map([...shared, ["pods", 1]]);
}

function inPool(pool: string, amounts: Amounts): PairAmounts {
  return new Map([...amounts].map(([resource, amount]) => [buildPairKey(pool, resource), amount]));
}

/** Sums amounts, and drops those of 0. */
function sumOf(all: readonly PairAmounts[]): PairAmounts {
  const sum = new Map<string, number>();
  for (const amounts of all)
    for (const [pair, amount] of amounts) if (amount > 0) sum.set(pair, (sum.get(pair) ?? 0) + amount);
  return sum;
}
