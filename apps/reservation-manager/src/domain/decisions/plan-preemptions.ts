import { knownReservation, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";
import { DEFAULT_GRACE_MS, type PreemptionReason } from "../ledger/reservation.ts";
import { forestOf, type QueueNode } from "../ledger/queue-forest.ts";
import type { Queues } from "../ledger/queue.ts";
import { SortedMap } from "../ledger/sorted-map.ts";
import { comparePlaces, needsAt, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { findVictims, rankOf, type Victims } from "./find-victims.ts";
import { levelOfDemand } from "./find-queue-obstacle.ts";
import { isPreemptible } from "./is-preemptible.ts";
import { firstOfHeads, type Head } from "./first-in-order.ts";
import { findHolds } from "./find-hold.ts";
import { assignMachines, findObstacle } from "./fit.ts";
import { futureOf, isChanging, isPlaced, keepsPlacesAfter } from "./future.ts";
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

/** Limit of requests that work is preempted for at a time: the future is built with each of them. Others wait for one of them to be granted. */
export const MAX_BENEFICIARIES = 32;

/** Limit of requests of one class that work is searched for, where each of them was preempted before and is not helped. */
export const MAX_FIRST_PLACES = 8;

/** A limit that keeps a request from preempting work that it otherwise may. */
export type PreemptionLimit = "MAX_VICTIMS" | "MAX_BENEFICIARIES" | "MAX_FIRST_PLACES";

const NO_LIMITS: ReadonlySet<PreemptionLimit> = new Set();

/**
 * Which work shall end next: for the first request, in the order in which they would be granted, that fits into no future and for which `findVictims` finds
 * enough. The future is the one in which all that leaves already has left, and its machines are granted in order: so nothing more is preempted for what comes
 * free anyway. One request in each plan, because a plan takes moments where many work and wait.
 */
export function planPreemptions(world: World, policy: GrantPolicy, nowMs: number): PreemptionPlan {
  const { victims = [], beneficiary, againAtMs, limits = NO_LIMITS } = findNext(world, policy, nowMs);
  const events = victims.map(({ sequence, reason }): LedgerEvent => {
    const { graceMs = DEFAULT_GRACE_MS } = knownReservation(world.ledger, sequence);
    const target = beneficiary === undefined ? {} : { beneficiary };
    return { kind: "preempted", sequence, ...target, reason, atMs: nowMs, deadlineMs: nowMs + graceMs };
  });
  const steps = victims.map(({ sequence, reason }): PreemptStep => {
    return { kind: "preempt", sequence, because: { code: reason, ahead: 0 } };
  });
  // Borrowers may now use the quota that was kept for its beneficiary, so that more requests may be granted.
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
  return { againAtMs: undefined, ...(isKeptWaiting(world) && { limits: new Set(["MAX_BENEFICIARIES"] as const) }) };
}

/** Whether more requests wait in queues that may preempt than work is preempted for. */
function isKeptWaiting({ ledger }: World): boolean {
  const forest = forestOf(ledger.queues);
  let waiting = 0;
  for (const [name, { places }] of ledger.queue.byQueue.entries()) {
    const node = forest.get(name);
    if (node !== undefined && mayPreempt(node.queue)) waiting += places.size;
  }
  return waiting > ledger.beneficiaries.length;
}

const preempting = new WeakMap<Queues, boolean>();

/** Whether requests of some queue may preempt work. */
export function mayPreemptAny(queues: Queues): boolean {
  const known = preempting.get(queues) ?? [...queues.values()].some((queue) => mayPreempt(queue));
  preempting.set(queues, known);
  return known;
}

export function mayPreempt({ reclaim, fairSharing, withinQueue, whileBorrowing }: QueueNode["queue"]): boolean {
  return [reclaim, fairSharing, withinQueue, whileBorrowing].some((policy) => policy !== undefined);
}

/** Work that is to end ranks behind all that leaves anyway, however far the quota is. */
const MAX_LEVEL = 1000;

/** The first request in order that preemption helps. Those before it get the leaving machines. */
function findFirst(world: World, policy: GrantPolicy, nowMs: number): Found {
  let future = futureOf(world).world;
  let againAtMs: number | undefined;
  const limits = new Set<PreemptionLimit>();
  for (;;) {
    const holds = findHolds(future, policy, nowMs);
    const found = new Map<Place, Victims>();
    const rankHelp = (waiting: WaitingClass, place: Place): number | undefined => {
      if (isChanging(world) && findObstacle(waiting, place, future, holds) === undefined)
        return levelOfDemand(waiting, future);
      const search = findVictims(waiting, place, { present: world, future, holds }, nowMs);
      if (search.againAtMs !== undefined) againAtMs = Math.min(againAtMs ?? Number.POSITIVE_INFINITY, search.againAtMs);
      if (search.isLimited) limits.add("MAX_VICTIMS");
      if (search.victims === undefined || !isServed(world, place.sequence, search.victims, nowMs)) {
        const isLast = waiting.places.rank(place) === MAX_FIRST_PLACES - 1;
        if (isLast && isCut(waiting, future.ledger)) limits.add("MAX_FIRST_PLACES");
        return undefined;
      }
      found.set(place, search.victims);
      return MAX_LEVEL + rankOf(search.victims);
    };
    const first = firstHelped(listCandidates(future, isChanging(world)), future, rankHelp);
    if (first === undefined) return { againAtMs, limits };
    const [place] = first;
    const victims = found.get(place);
    if (victims !== undefined) return { victims, beneficiary: place.sequence, againAtMs, limits };
    const reservation = knownReservation(future.ledger, place.sequence);
    const option = { ...reservation, needs: needsAt(reservation, place) };
    const assigned = assignMachines(option, future.machines, undefined);
    future = evolveWorld(future, [{ kind: "granted", sequence: place.sequence, ...assigned, atMs: 0 }]);
  }
}

/**
 * The first in order of the candidates that are helped. The first of each queue is found before queues are compared: which queue of a subtree comes first
 * decides how the subtree compares with others. `rankHelp`: undefined where nothing helps; of the options of one request the one with the lowest rank counts.
 */
function firstHelped(
  candidates: SortedMap<Place, WaitingClass>,
  world: World,
  rankHelp: (waiting: WaitingClass, place: Place) => number | undefined,
): Head | undefined {
  const heads = new Map<string | undefined, { readonly head: Head; readonly rank: number }>();
  for (const [place, waiting] of candidates.entries()) {
    const known = heads.get(waiting.queue);
    if (known !== undefined && known.head[0].sequence !== place.sequence) continue;
    const rank = rankHelp(waiting, place);
    if (rank !== undefined && rank < (known?.rank ?? Infinity))
      heads.set(waiting.queue, { head: [place, waiting], rank });
  }
  return firstOfHeads(
    [...heads.values()].map(({ head }) => head),
    world,
  );
}

/**
 * Whether the request has machines once the victims have left, whichever other beneficiary is cancelled, and those before it still do: the future may place
 * them in another way.
 */
function isServed(world: World, beneficiary: number, victims: Victims, nowMs: number): boolean {
  const events = victims.map(({ sequence, reason }): LedgerEvent => {
    return { kind: "preempted", sequence, beneficiary, reason, atMs: nowMs, deadlineMs: nowMs };
  });
  const after = evolveWorld(world, events);
  return isPlaced(after, beneficiary) && keepsPlacesAfter(world, after);
}

/** The first request of each class of the queues that may preempt, and of all others while work leaves that they may get. */
function listCandidates({ ledger }: World, isWorkLeaving: boolean): SortedMap<Place, WaitingClass> {
  let candidates = isWorkLeaving ? ledger.queue.heads : SortedMap.empty<Place, WaitingClass>(comparePlaces);
  for (const [name, { heads }] of ledger.queue.byQueue.entries()) {
    const node = forestOf(ledger.queues).get(name);
    if (node === undefined || node.problem !== undefined) continue;
    if (!isWorkLeaving && !mayPreempt(node.queue)) continue;
    for (const waiting of heads.values())
      for (const place of firstPlaces(waiting, ledger)) candidates = candidates.set(place, waiting);
  }
  return candidates;
}

/** The first request of the class. If it was preempted itself, it spares the work that it was preempted for: the next one does not. */
function* firstPlaces({ places }: WaitingClass, { reservations }: Ledger): Generator<Place> {
  let count = 0;
  for (const place of places.keys()) {
    yield place;
    count += 1;
    if (reservations.get(place.sequence)?.preemptedFor === undefined || count === MAX_FIRST_PLACES) return;
  }
}

/** Whether the limit alone leaves out requests of the class. */
function isCut(waiting: WaitingClass, ledger: Ledger): boolean {
  const first = [...firstPlaces(waiting, ledger)];
  const last = ledger.reservations.get(first.at(-1)?.sequence ?? 0);
  return first.length === MAX_FIRST_PLACES && last?.preemptedFor !== undefined && waiting.places.size > first.length;
}

/** Whether the limit leaves out this request of the class. */
export function isPlaceLeftOut(waiting: WaitingClass, place: Place, ledger: Ledger): boolean {
  return waiting.places.rank(place) >= MAX_FIRST_PLACES && isCut(waiting, ledger);
}

/** The first admitted work of a drained queue that is not asked to leave yet. */
function findDrained({ ledger }: World): number | undefined {
  for (const node of drainedQueues(ledger.queues))
    for (const { sequence } of ledger.admitted.get(node.queue.name)?.keys() ?? []) {
      const reservation = knownReservation(ledger, sequence);
      if (reservation.grant?.preemption === undefined && isPreemptible(reservation, node)) return sequence;
    }
  return undefined;
}

const drainedByQueues = new WeakMap<Queues, readonly QueueNode[]>();

function drainedQueues(queues: Queues): readonly QueueNode[] {
  const known = drainedByQueues.get(queues) ?? [...forestOf(queues).values()].filter(isDrained);
  drainedByQueues.set(queues, known);
  return known;
}

function isDrained({ path }: QueueNode): boolean {
  return path.some(({ queue }) => queue.stopPolicy === "HoldAndDrain");
}

/**
 * Takes back what serves nothing any more: requests that would not be granted once all has left keep nothing, and work whose owner has not begun to end it
 * stays if its beneficiary is granted, gone or one of those, or if its queue is not drained any more.
 */
export function planWithdrawals(start: World, atMs: number): readonly LedgerEvent[] {
  const events: LedgerEvent[] = [];
  // Another request may have waited for the work that stays.
  for (let world = start; ;) {
    const next = findUnserving(world, atMs);
    if (next.length === 0) return events;
    events.push(...next);
    world = evolveWorld(world, next);
  }
}

function findUnserving(world: World, atMs: number): readonly LedgerEvent[] {
  const { ledger, machines } = world;
  if (ledger.leaving.size === 0 && ledger.beneficiaries.length === 0) return [];
  const { placed } = futureOf(world);
  const kept = ledger.beneficiaries.filter(({ sequence }) => !machines.complete || placed.has(sequence));
  const dropped = ledger.beneficiaries.filter((each) => !kept.includes(each));
  const sequences = new Set(kept.map(({ sequence }) => sequence));
  const withdrawn = [...ledger.leaving.keys()].filter((sequence) => {
    const { queue, grant } = knownReservation(ledger, sequence);
    const { isAccepted = true, beneficiary } = grant?.preemption ?? {};
    if (isAccepted) return false;
    if (beneficiary !== undefined) return !sequences.has(beneficiary);
    const node = forestOf(ledger.queues).get(queue ?? "");
    return node === undefined || !isDrained(node);
  });
  return [
    ...dropped.map(({ sequence }): LedgerEvent => ({ kind: "beneficiaryDropped", sequence, atMs })),
    ...withdrawn.map((sequence): LedgerEvent => ({ kind: "preemptionWithdrawn", sequence, atMs })),
  ];
}
