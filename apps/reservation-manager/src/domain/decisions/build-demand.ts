import { explainWaiting, type WaitReason } from "./explain-waiting.ts";
import { findHolds } from "./find-hold.ts";
import type { Demand, HoldPolicy } from "./fit.ts";
import { getReservation, countFreeReservations, type Ledger } from "../ledger/ledger.ts";
import { hasOtherPools } from "@muster/resources";
import type { Need, Reservation } from "../ledger/reservation.ts";
import { SortedMap } from "../ledger/sorted-map.ts";
import {
  compareQueuePositions,
  getNeedsAt,
  listRequestOptions,
  getPlaceAfter,
  type QueuePosition,
  type RequestOption,
  type WaitingClass,
  type WaitingKind,
} from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { buildFutureWorld, isChanging } from "./future.ts";
import { sumRequestedAmounts } from "./sum-requested-amounts.ts";
import { listOptions, type Option } from "./choose-option.ts";
import { findQuotaShortage, isStrictQueue, computeDemandLevel } from "./find-queue-obstacle.ts";
import { withUse } from "../ledger/queue-use.ts";

export type DemandRequest = {
  /** Lists only reservations with a need in one of these pools; empty: in any pool. */
  readonly pools: readonly string[];
  readonly limit: number;
};

/**
 * Requests that wait for machines, in queue order. `more` counts the requests beyond the limit of the list; a request that accepts several pools may count once
 * per pool. `rooms`: further grants that the limit of each owner kind permits.
 */
export type DemandList = {
  readonly reports: readonly { readonly reservation: Reservation; readonly because: WaitReason | undefined }[];
  readonly more: number;
  readonly rooms: readonly { readonly ownerKind: string; readonly room: number }[];
};

/** Limit of the needs of all listed reservations together, so that the list fits into one message even with the longest names. */
export const MAX_DEMAND_NEEDS = 4000;

/**
 * Lists the requests that more machines could serve. A kind with a concurrency limit lists as many as the limit permits, because later ones wait for a release.
 * The cost grows with the listed requests and the sets of needed pools, not with all waiting requests.
 */
export function buildDemand(world: World, policy: HoldPolicy, nowMs: number, request: DemandRequest): DemandList {
  const { ledger } = world;
  const parts = findParts(ledger, request.pools);
  const holds = findHolds(world, policy, nowMs);
  const listed = listInOrder(world, parts, request.limit);
  const reports = listed.map(({ reservation, options }) => {
    const because = explainWaiting(reservation, world, holds);
    return { reservation: withPoolsOf(reservation, options), because };
  });
  // A full list subtracts each listed request once, which is a lower bound. A shorter list subtracts it once per option, as `countDemand` counts it.
  const counted =
    listed.length >= request.limit
      ? listed.length
      : listed.reduce((sum, { reservation }) => sum + countTurns(reservation, request.pools), 0);
  const rooms = [...ledger.limits.keys()].map((ownerKind) => ({
    ownerKind,
    room: countFreeReservations(ownerKind, ledger),
  }));
  return { reports, more: Math.max(0, countDemand(ledger, parts) - counted), rooms };
}

type Admitted = Pick<Option, "demand" | "place">;

/** `options`: the options that the quota admits, the nearest quota first. */
type Listed = { readonly reservation: Reservation; readonly options: readonly Admitted[] };

/** Reduces the pools of the reservation to those in which the quota admits it, because machines of other pools do not help it. */
function withPoolsOf(reservation: Reservation, options: readonly Admitted[]): Reservation {
  if (!reservation.needs.some(hasOtherPools)) return reservation;
  const needs = reservation.needs.map(({ otherPools: _, ...need }, index): Need => {
    const [pool = need.pool, ...otherPools] = new Set(
      options.map(({ place }) => getNeedsAt(reservation, place)[index]?.pool ?? need.pool),
    );
    return { ...need, pool, ...(otherPools.length > 0 && { otherPools }) };
  });
  return { ...reservation, needs };
}

/** Counts the options of the request that need one of these pools. */
function countTurns(reservation: Reservation, pools: readonly string[]): number {
  const isWanted = ({ needs }: RequestOption): boolean =>
    pools.length === 0 || needs.some(({ pool }) => pools.includes(pool));
  return listRequestOptions(reservation).filter(isWanted).length;
}

/** Requests of one kind that need machines of the same pools. */
type Part = WaitingKind & { readonly ownerKind: string };

/** The parts of the queue that need one of the pools and whose concurrency limit permits a grant. */
function findParts(ledger: Ledger, pools: readonly string[]): readonly Part[] {
  const wanted = new Set(pools);
  const parts: Part[] = [];
  for (const group of ledger.queue.groups.values()) {
    if (wanted.size > 0 && !group.pools.some((pool) => wanted.has(pool))) continue;
    for (const [ownerKind, part] of group.kinds.entries())
      if (countFreeReservations(ownerKind, ledger) > 0) parts.push({ ...part, ownerKind });
  }
  return parts;
}

/** A candidate for the next entry. Its successors are the requests behind it in its class and, with `heads`, the first requests of later classes. */
type Turn = { readonly waiting: WaitingClass; readonly heads: WaitingKind["heads"] | undefined };

/** Merges the parts in queue order: the next candidates of a listed request's class and part follow it. */
function listInOrder(world: World, parts: readonly Part[], limit: number): readonly Listed[] {
  const listed: Listed[] = [];
  const { ledger, machines } = world;
  const served = isChanging(world) ? buildFutureWorld(world).placed : new Set<number>();
  // In this world the listed requests are granted, so that their quota is counted. A StrictFIFO queue lists no request behind an unlisted one.
  let admitting = { ledger, machines };
  const blocked = new Set<string>();
  const listedByKind = new Map<string, number>();
  let needsLeft = MAX_DEMAND_NEEDS;
  let turns = SortedMap.from(
    compareQueuePositions,
    parts.flatMap(({ heads }) => turnsOf(heads)),
  );
  for (let turn = turns.first(); turn !== undefined && listed.length < limit; turn = turns.first()) {
    const [place, { waiting, heads }] = turn;
    turns = turns.delete(place);
    const ofKind = listedByKind.get(waiting.ownerKind) ?? 0;
    if (ofKind >= countFreeReservations(waiting.ownerKind, ledger)) continue;
    const after = getPlaceAfter(place);
    const isStrict = waiting.queue !== undefined && isStrictQueue(waiting.queue, ledger);
    const isServed = served.has(place.sequence);
    const last = listed.at(-1);
    // Skip the other options of the request, because the first option decided for all of them.
    const isListed = last?.reservation.sequence === place.sequence;
    const isAdmitted = isListed
      ? last.options.some((option) => option.place.option === place.option)
      : isServed || (!blocked.has(waiting.queue ?? "") && findQuotaShortage(waiting, place, admitting) === undefined);
    if (isAdmitted) {
      if (!isServed && !isListed) {
        const reservation = getReservation(ledger, place.sequence);
        needsLeft -= reservation.needs.length;
        if (needsLeft < 0) break;
        const options =
          place.option === undefined ? [{ place, demand: waiting }] : listAdmitted(reservation, admitting);
        listed.push({ reservation, options });
        listedByKind.set(waiting.ownerKind, ofKind + 1);
        admitting = withAsked(options[0]?.demand ?? waiting, admitting);
      }
      // If the quota stops a request, it stops all later requests of its class.
      const behind = waiting.places.first(after);
      if (behind !== undefined) turns = turns.set(behind[0], { waiting, heads: undefined });
    } else if (isStrict && !isListed && isStopped(place, admitting)) blocked.add(waiting.queue ?? "");
    for (const [later, next] of heads === undefined ? [] : turnsOf(heads, after)) turns = turns.set(later, next);
  }
  return listed;
}

/** Returns the admitted options, the nearest quota first. */
function listAdmitted(reservation: Reservation, world: World): readonly Admitted[] {
  return listOptions(reservation)
    .filter(({ demand, place }) => findQuotaShortage(demand, place, world) === undefined)
    .map((option) => ({ option, level: computeDemandLevel(option.demand, option.place, world) }))
    .sort((a, b) => a.level - b.level)
    .map(({ option }) => option);
}

/** Whether the quota admits no option of the request. The caller knows that the quota does not admit the option at this place. */
function isStopped({ option, sequence }: QueuePosition, world: World): boolean {
  return option === undefined || listAdmitted(getReservation(world.ledger, sequence), world).length === 0;
}

/** Counts the request as granted, for the quota of later requests. */
function withAsked({ queue, needs }: Demand, { ledger, machines }: World): World {
  if (queue === undefined) return { ledger, machines };
  const use = withUse(ledger.use, ledger.queues, queue, sumRequestedAmounts(needs, machines).amounts, 1);
  return { ledger: { ...ledger, use }, machines };
}

/** Returns the first turn at or after `from`; empty at the end of the part. */
function turnsOf(heads: WaitingKind["heads"], from?: QueuePosition): readonly (readonly [QueuePosition, Turn])[] {
  const head = heads.first(from);
  return head === undefined ? [] : [[head[0], { waiting: head[1], heads }]];
}

function countDemand(ledger: Ledger, parts: readonly Part[]): number {
  const byKind = new Map<string, number>();
  for (const { ownerKind, waiting } of parts) byKind.set(ownerKind, (byKind.get(ownerKind) ?? 0) + waiting);
  return [...byKind].reduce(
    (sum, [ownerKind, count]) => sum + Math.min(count, countFreeReservations(ownerKind, ledger)),
    0,
  );
}
