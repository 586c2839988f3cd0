import { explainWaiting, type WaitReason } from "./explain-waiting.ts";
import { findHolds } from "./find-hold.ts";
import type { HoldPolicy } from "./fit.ts";
import { knownReservation, roomFor, type Ledger } from "../ledger/ledger.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { SortedMap } from "../ledger/sorted-map.ts";
import { comparePlaces, type Place, type WaitingClass, type WaitingKind } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { futureOf, isChanging } from "./future.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { findQuotaShortage, isStrictQueue } from "./find-queue-obstacle.ts";
import { withUse } from "../ledger/queue-use.ts";

export type DemandRequest = {
  /** Only reservations with a need in one of these; empty: in any pool. */
  readonly pools: readonly string[];
  readonly limit: number;
};

/**
 * What waits for machines, in queue order; `more` counts what would be in the list as well if it were longer. `rooms`: by kind with a concurrency limit, how
 * many more of it may be granted.
 */
export type DemandList = {
  readonly reports: readonly { readonly reservation: Reservation; readonly because: WaitReason | undefined }[];
  readonly more: number;
  readonly rooms: readonly { readonly ownerKind: string; readonly room: number }[];
};

/** Needs of all listed reservations together: with the longest names that there are they still fit into one message. */
export const MAX_DEMAND_NEEDS = 4000;

/**
 * What further machines could bring forward. Of a kind with a concurrency limit that is as many as the limit leaves room for, since what comes behind them
 * waits for a release and not for machines. The cost is that of the sets of pools that are needed and of what is listed, not that of what waits.
 */
export function buildDemand(world: World, policy: HoldPolicy, nowMs: number, request: DemandRequest): DemandList {
  const { ledger } = world;
  const parts = findParts(ledger, request.pools);
  const holds = findHolds(world, policy, nowMs);
  const reservations = listInOrder(world, parts, request.limit);
  const reports = reservations.map((reservation) => {
    return { reservation, because: explainWaiting(reservation, world, holds) };
  });
  const rooms = [...ledger.limits.keys()].map((ownerKind) => ({ ownerKind, room: roomFor(ownerKind, ledger) }));
  return { reports, more: countDemand(ledger, parts) - reservations.length, rooms };
}

/** Requests of one kind that need machines of the same pools. */
type Part = WaitingKind & { readonly ownerKind: string };

/** The parts of the queue that need one of the pools and whose concurrency limit leaves room. */
function findParts(ledger: Ledger, pools: readonly string[]): readonly Part[] {
  const wanted = new Set(pools);
  const parts: Part[] = [];
  for (const group of ledger.queue.groups.values()) {
    if (wanted.size > 0 && !group.pools.some((pool) => wanted.has(pool))) continue;
    for (const [ownerKind, part] of group.kinds.entries())
      if (roomFor(ownerKind, ledger) > 0) parts.push({ ...part, ownerKind });
  }
  return parts;
}

/** A request that may be the next one, and what comes after it: those behind it in its class, and with `heads` the first ones of later classes. */
type Turn = { readonly waiting: WaitingClass; readonly heads: WaitingKind["heads"] | undefined };

/** A merge of the parts: after a request its class and its part have their next turn. */
function listInOrder(world: World, parts: readonly Part[], limit: number): readonly Reservation[] {
  const listed: Reservation[] = [];
  const { ledger, machines } = world;
  const served = isChanging(world) ? futureOf(world).placed : new Set<number>();
  // What the quota lets be granted beside those that are listed already. In a StrictFIFO queue nothing is listed behind one that is not.
  let admitting = { ledger, machines };
  const blocked = new Set<string>();
  const listedByKind = new Map<string, number>();
  let needsLeft = MAX_DEMAND_NEEDS;
  let turns = SortedMap.from(
    comparePlaces,
    parts.flatMap(({ heads }) => turnsOf(heads)),
  );
  for (let turn = turns.first(); turn !== undefined && listed.length < limit; turn = turns.first()) {
    const [place, { waiting, heads }] = turn;
    turns = turns.delete(place);
    const ofKind = listedByKind.get(waiting.ownerKind) ?? 0;
    if (ofKind >= roomFor(waiting.ownerKind, ledger)) continue;
    const after = { ...place, sequence: place.sequence + 1 };
    const isStrict = waiting.queue !== undefined && isStrictQueue(waiting.queue, ledger);
    const isServed = served.has(place.sequence);
    const isAdmitted =
      isServed || (!blocked.has(waiting.queue ?? "") && findQuotaShortage(waiting, admitting) === undefined);
    if (isAdmitted) {
      if (!isServed) {
        const reservation = knownReservation(ledger, place.sequence);
        needsLeft -= reservation.needs.length;
        if (needsLeft < 0) break;
        listed.push(reservation);
        listedByKind.set(waiting.ownerKind, ofKind + 1);
        admitting = withAsked(waiting, admitting);
      }
      // Where the quota stops one, it stops all behind it in its class.
      const behind = waiting.places.first(after);
      if (behind !== undefined) turns = turns.set(behind[0], { waiting, heads: undefined });
    } else if (isStrict) blocked.add(waiting.queue ?? "");
    for (const [later, next] of heads === undefined ? [] : turnsOf(heads, after)) turns = turns.set(later, next);
  }
  return listed;
}

/** As if the request were granted, for the quota of those that come after it. */
function withAsked({ queue, needs }: WaitingClass, { ledger, machines }: World): World {
  if (queue === undefined) return { ledger, machines };
  const use = withUse(ledger.use, ledger.queues, queue, askedAmounts(needs, machines).amounts, 1);
  return { ledger: { ...ledger, use }, machines };
}

/** The first turn from that place on; none where the part ends. */
function turnsOf(heads: WaitingKind["heads"], from?: Place): readonly (readonly [Place, Turn])[] {
  const head = heads.first(from);
  return head === undefined ? [] : [[head[0], { waiting: head[1], heads }]];
}

function countDemand(ledger: Ledger, parts: readonly Part[]): number {
  const byKind = new Map<string, number>();
  for (const { ownerKind, waiting } of parts) byKind.set(ownerKind, (byKind.get(ownerKind) ?? 0) + waiting);
  return [...byKind].reduce((sum, [ownerKind, count]) => sum + Math.min(count, roomFor(ownerKind, ledger)), 0);
}
