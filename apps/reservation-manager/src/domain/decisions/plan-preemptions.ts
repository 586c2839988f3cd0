import { getReservation, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";
import { DEFAULT_GRACE_MS, type PreemptionReason } from "../ledger/reservation.ts";
import { getForest, type QueueNode } from "../ledger/queue-forest.ts";
import type { Queues } from "../ledger/queue.ts";
import { SortedMap } from "../ledger/sorted-map.ts";
import { compareQueuePositions, getNeedsAt, type QueuePosition, type WaitingClass } from "../ledger/waiting-queue.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { findVictims, computeVictimRank, type Victims } from "./find-victims.ts";
import { computeDemandLevel } from "./find-queue-obstacle.ts";
import { isPreemptible } from "./is-preemptible.ts";
import { findFirstHead, type QueueHead } from "./first-in-order.ts";
import { findHolds } from "./find-hold.ts";
import { assignMachines, findObstacle } from "./fit.ts";
import { buildFutureWorld, isChanging, isPlaced, arePlacesKeptAfter } from "./future.ts";
import type { GrantPolicy } from "./plan-grants.ts";

export type PreemptStep = {
  readonly kind: "preempt";
  readonly sequence: number;
  readonly because: { readonly code: PreemptionReason; readonly ahead: 0 };
};

type PreemptionPlan = {
  readonly steps: readonly PreemptStep[];
  readonly events: readonly LedgerEvent[];
  /** False: the next plan may preempt more. */
  readonly complete: boolean;
  readonly againAtMs: number | undefined;
  readonly limits: ReadonlySet<PreemptionLimit>;
};

/** Limit of concurrent beneficiaries, because the future is built with each of them. Further requests wait until one of them is granted. */
export const MAX_BENEFICIARIES = 32;

/**
 * Limit of requests per class for which victims are searched. The search examines more than one request only in a class whose first requests were preempted
 * themselves.
 */
export const MAX_FIRST_PLACES = 8;

/** A limit that prevents a preemption which the queues permit. */
export type PreemptionLimit = "MAX_VICTIMS" | "MAX_BENEFICIARIES" | "MAX_FIRST_PLACES";

const NO_LIMITS: ReadonlySet<PreemptionLimit> = new Set();

/**
 * Plans preemptions for one request: the first in grant order that does not fit the future and for which `findVictims` finds enough work. In the future, all
 * leaving work has left and its machines are granted in order, so no work is preempted for machines that become free anyway. One request per plan bounds the
 * time of a plan when many requests wait.
 */
export function planPreemptions(world: World, policy: GrantPolicy, nowMs: number): PreemptionPlan {
  const { victims = [], beneficiary, againAtMs, limits = NO_LIMITS } = findNext(world, policy, nowMs);
  const events = victims.map(({ sequence, reason }): LedgerEvent => {
    const { graceMs = DEFAULT_GRACE_MS } = getReservation(world.ledger, sequence);
    const target = beneficiary === undefined ? {} : { beneficiary };
    return { kind: "preempted", sequence, ...target, reason, atMs: nowMs, deadlineMs: nowMs + graceMs };
  });
  const steps = victims.map(({ sequence, reason }): PreemptStep => {
    return { kind: "preempt", sequence, because: { code: reason, ahead: 0 } };
  });
  // After a preemption, borrowers may use the quota that was kept for its beneficiary, so more requests may fit.
  return { steps, events, complete: victims.length === 0, againAtMs, limits };
}

type Found = {
  readonly victims?: Victims;
  /** Undefined: the queue of the work is drained. */
  readonly beneficiary?: number;
  readonly againAtMs: number | undefined;
  readonly limits?: ReadonlySet<PreemptionLimit>;
};

function findNext(world: World, policy: GrantPolicy, nowMs: number): Found {
  const drained = findDrained(world);
  if (drained !== undefined) return { victims: [{ sequence: drained, reason: "DRAIN" }], againAtMs: undefined };
  if (!world.machines.complete || !mayPreemptAny(world.ledger.queues)) return { againAtMs: undefined };
  if (world.ledger.beneficiaries.length < MAX_BENEFICIARIES) return findFirst(world, policy, nowMs);
  return {
    againAtMs: undefined,
    ...(hasUnservedRequests(world) && { limits: new Set(["MAX_BENEFICIARIES"] as const) }),
  };
}

/** Whether more requests wait in queues that may preempt than there are beneficiaries. */
function hasUnservedRequests({ ledger }: World): boolean {
  const forest = getForest(ledger.queues);
  let waiting = 0;
  for (const [name, { places }] of ledger.queue.byQueue.entries()) {
    const node = forest.get(name);
    if (node !== undefined && mayPreempt(node.queue)) waiting += places.size;
  }
  return waiting > ledger.beneficiaries.length;
}

const preempting = new WeakMap<Queues, boolean>();

/** Whether requests of any queue may preempt work. */
export function mayPreemptAny(queues: Queues): boolean {
  const known = preempting.get(queues) ?? [...queues.values()].some((queue) => mayPreempt(queue));
  preempting.set(queues, known);
  return known;
}

export function mayPreempt({ reclaim, fairSharing, withinQueue, whileBorrowing }: QueueNode["queue"]): boolean {
  return [reclaim, fairSharing, withinQueue, whileBorrowing].some((policy) => policy !== undefined);
}

/** Exceeds every level, so an option that needs victims ranks after each option that leaving work serves. */
const MAX_LEVEL = 1000;

/** Finds the first request in order that preemption helps. Earlier requests that fit are granted machines of the leaving work. */
function findFirst(world: World, policy: GrantPolicy, nowMs: number): Found {
  let future = buildFutureWorld(world).world;
  let againAtMs: number | undefined;
  const limits = new Set<PreemptionLimit>();
  for (;;) {
    const holds = findHolds(future, policy, nowMs);
    const found = new Map<QueuePosition, Victims>();
    const rankHelp = (waiting: WaitingClass, place: QueuePosition): number | undefined => {
      if (isChanging(world) && findObstacle(waiting, place, future, holds) === undefined)
        return computeDemandLevel(waiting, place, future);
      const search = findVictims(waiting, place, { present: world, future, holds }, nowMs);
      if (search.againAtMs !== undefined) againAtMs = Math.min(againAtMs ?? Number.POSITIVE_INFINITY, search.againAtMs);
      if (search.isLimited) limits.add("MAX_VICTIMS");
      if (search.victims === undefined || !isServed(world, place.sequence, search.victims, nowMs)) {
        const isLast = waiting.places.rank(place) === MAX_FIRST_PLACES - 1;
        if (isLast && isClassCut(waiting, future.ledger)) limits.add("MAX_FIRST_PLACES");
        return undefined;
      }
      found.set(place, search.victims);
      return MAX_LEVEL + computeVictimRank(search.victims);
    };
    const first = findFirstHelped(listCandidates(future, isChanging(world)), future, rankHelp);
    if (first === undefined) return { againAtMs, limits };
    const [place] = first;
    const victims = found.get(place);
    if (victims !== undefined) return { victims, beneficiary: place.sequence, againAtMs, limits };
    const reservation = getReservation(future.ledger, place.sequence);
    const option = { ...reservation, needs: getNeedsAt(reservation, place) };
    const assigned = assignMachines(option, future.machines, undefined);
    future = evolveWorld(future, [{ kind: "granted", sequence: place.sequence, ...assigned, atMs: 0 }]);
  }
}

/**
 * Finds the first helped candidate in order. The first of each queue is found before queues are compared, because it decides how its subtree compares with
 * others. `rankHelp`: undefined if nothing helps; of the options of one request, the lowest rank counts.
 */
function findFirstHelped(
  candidates: SortedMap<QueuePosition, WaitingClass>,
  world: World,
  rankHelp: (waiting: WaitingClass, place: QueuePosition) => number | undefined,
): QueueHead | undefined {
  const heads = new Map<string | undefined, { readonly head: QueueHead; readonly rank: number }>();
  for (const [place, waiting] of candidates.entries()) {
    const known = heads.get(waiting.queue);
    if (known !== undefined && known.head[0].sequence !== place.sequence) continue;
    const rank = rankHelp(waiting, place);
    if (rank !== undefined && rank < (known?.rank ?? Infinity))
      heads.set(waiting.queue, { head: [place, waiting], rank });
  }
  return findFirstHead(
    [...heads.values()].map(({ head }) => head),
    world,
  );
}

/**
 * Whether the victims' end gives the request machines, whichever other beneficiary is cancelled, and each earlier beneficiary keeps its machines. The future
 * may place them differently.
 */
function isServed(world: World, beneficiary: number, victims: Victims, nowMs: number): boolean {
  const events = victims.map(({ sequence, reason }): LedgerEvent => {
    return { kind: "preempted", sequence, beneficiary, reason, atMs: nowMs, deadlineMs: nowMs };
  });
  const after = evolveWorld(world, events);
  return isPlaced(after, beneficiary) && arePlacesKeptAfter(world, after);
}

/** Lists the first request of each class of queues that may preempt. While work is leaving, all other classes are candidates for its machines. */
function listCandidates({ ledger }: World, isWorkLeaving: boolean): SortedMap<QueuePosition, WaitingClass> {
  let candidates = isWorkLeaving
    ? ledger.queue.heads
    : SortedMap.empty<QueuePosition, WaitingClass>(compareQueuePositions);
  for (const [name, { heads }] of ledger.queue.byQueue.entries()) {
    const node = getForest(ledger.queues).get(name);
    if (node === undefined || node.problem !== undefined) continue;
    if (!isWorkLeaving && !mayPreempt(node.queue)) continue;
    for (const waiting of heads.values())
      for (const place of firstPlaces(waiting, ledger)) candidates = candidates.set(place, waiting);
  }
  return candidates;
}

/** Yields the first request of the class. A preempted request may not preempt the work that replaced it, so the next request is a candidate too. */
function* firstPlaces({ places }: WaitingClass, { reservations }: Ledger): Generator<QueuePosition> {
  let count = 0;
  for (const place of places.keys()) {
    yield place;
    count += 1;
    if (reservations.get(place.sequence)?.preemptedFor === undefined || count === MAX_FIRST_PLACES) return;
  }
}

/** Whether `MAX_FIRST_PLACES` excludes requests of the class. */
function isClassCut(waiting: WaitingClass, ledger: Ledger): boolean {
  const first = [...firstPlaces(waiting, ledger)];
  const last = ledger.reservations.get(first.at(-1)?.sequence ?? 0);
  return first.length === MAX_FIRST_PLACES && last?.preemptedFor !== undefined && waiting.places.size > first.length;
}

/** Whether `MAX_FIRST_PLACES` excludes this request of the class. */
export function isPlaceExcluded(waiting: WaitingClass, place: QueuePosition, ledger: Ledger): boolean {
  return waiting.places.rank(place) >= MAX_FIRST_PLACES && isClassCut(waiting, ledger);
}

/** The first admitted work of a drained queue that is not preempted yet. */
function findDrained({ ledger }: World): number | undefined {
  for (const node of drainedQueues(ledger.queues))
    for (const { sequence } of ledger.admitted.get(node.queue.name)?.keys() ?? []) {
      const reservation = getReservation(ledger, sequence);
      if (reservation.grant?.preemption === undefined && isPreemptible(reservation, node)) return sequence;
    }
  return undefined;
}

const drainedByQueues = new WeakMap<Queues, readonly QueueNode[]>();

function drainedQueues(queues: Queues): readonly QueueNode[] {
  const known = drainedByQueues.get(queues) ?? [...getForest(queues).values()].filter(isDrained);
  drainedByQueues.set(queues, known);
  return known;
}

function isDrained({ path }: QueueNode): boolean {
  return path.some(({ queue }) => queue.stopPolicy === "HoldAndDrain");
}

/**
 * Withdraws preemptions that no longer serve a request. A beneficiary that would not be granted in the future is dropped. Work stays if its owner has not begun
 * to end it and its beneficiary is granted, cancelled or dropped, or its queue is no longer drained.
 */
export function planWithdrawals(start: World, atMs: number): readonly LedgerEvent[] {
  const events: LedgerEvent[] = [];
  // Another beneficiary may need the work that stays, so repeat until no withdrawal remains.
  for (let world = start; ;) {
    const next = findWithdrawals(world, atMs);
    if (next.length === 0) return events;
    events.push(...next);
    world = evolveWorld(world, next);
  }
}

function findWithdrawals(world: World, atMs: number): readonly LedgerEvent[] {
  const { ledger, machines } = world;
  if (ledger.leaving.size === 0 && ledger.beneficiaries.length === 0) return [];
  const { placed } = buildFutureWorld(world);
  const kept = ledger.beneficiaries.filter(({ sequence }) => !machines.complete || placed.has(sequence));
  const dropped = ledger.beneficiaries.filter((each) => !kept.includes(each));
  const sequences = new Set(kept.map(({ sequence }) => sequence));
  const withdrawn = [...ledger.leaving.keys()].filter((sequence) => {
    const { queue, grant } = getReservation(ledger, sequence);
    const { isAccepted = true, beneficiary } = grant?.preemption ?? {};
    if (isAccepted) return false;
    if (beneficiary !== undefined) return !sequences.has(beneficiary);
    const node = getForest(ledger.queues).get(queue ?? "");
    return node === undefined || !isDrained(node);
  });
  return [
    ...dropped.map(({ sequence }): LedgerEvent => ({ kind: "beneficiaryDropped", sequence, atMs })),
    ...withdrawn.map((sequence): LedgerEvent => ({ kind: "preemptionWithdrawn", sequence, atMs })),
  ];
}
