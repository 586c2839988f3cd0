import { explainWaiting, type WaitReason } from "./explain-waiting.ts";
import { findHolds } from "./find-hold.ts";
import type { Demand, HoldPolicy } from "./fit.ts";
import { knownReservation, roomFor, type Ledger } from "../ledger/ledger.ts";
import { hasOtherPools } from "@muster/resources";
import type { Need, Reservation } from "../ledger/reservation.ts";
import { SortedMap } from "../ledger/sorted-map.ts";
import {
  comparePlaces,
  needsAt,
  optionsOfRequest,
  placeAfter,
  type Place,
  type RequestOption,
  type WaitingClass,
  type WaitingKind,
} from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { futureOf, isChanging } from "./future.ts";
import { askedAmounts } from "./asked-amounts.ts";
import { listOptions, type Option } from "./choose-option.ts";
import { findQuotaShortage, isStrictQueue, levelOfDemand } from "./find-queue-obstacle.ts";
import { withUse } from "../ledger/queue-use.ts";

export type DemandRequest = {
  /** Only reservations with a need in one of these; empty: in any pool. */
  readonly pools: readonly string[];
  readonly limit: number;
};

/**
 * What waits for machines, in queue order; `more` counts what would be in the list as well if it were longer; a request
 * that accepts several pools may count once for each. `rooms`: by kind with a concurrency limit, how
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
  const listed = listInOrder(world, parts, request.limit);
  const reports = listed.map(({ reservation, options }) => {
    const because = explainWaiting(reservation, world, holds);
    return { reservation: withPoolsOf(reservation, options), because };
  });
  // A list that is cut leaves at least as many as this. Where it is not, each of its requests was counted once for each option.
  const counted =
    listed.length >= request.limit
      ? listed.length
      : listed.reduce((sum, { reservation }) => sum + countTurns(reservation, request.pools), 0);
  const rooms = [...ledger.limits.keys()].map((ownerKind) => ({ ownerKind, room: roomFor(ownerKind, ledger) }));
  return { reports, more: Math.max(0, countDemand(ledger, parts) - counted), rooms };
}

type Admitted = Pick<Option, "demand" | "place">;

/** `options`: the options that the quota admits, the nearest quota first. */
type Listed = { readonly reservation: Reservation; readonly options: readonly Admitted[] };

/** The reservation with the pools in which the quota admits it: machines of others would not bring it forward. */
function withPoolsOf(reservation: Reservation, options: readonly Admitted[]): Reservation {
  if (!reservation.needs.some(hasOtherPools)) return reservation;
  const needs = reservation.needs.map(({ otherPools: _, ...need }, index): Need => {
    const [pool = need.pool, ...otherPools] = new Set(
      options.map(({ place }) => needsAt(reservation, place)[index]?.pool ?? need.pool),
    );
    return { ...need, pool, ...(otherPools.length > 0 && { otherPools }) };
  });
  return { ...reservation, needs };
}

/** How often the request is counted in the parts that need one of these pools. */
function countTurns(reservation: Reservation, pools: readonly string[]): number {
  const isWanted = ({ needs }: RequestOption): boolean =>
    pools.length === 0 || needs.some(({ pool }) => pools.includes(pool));
  return optionsOfRequest(reservation).filter(isWanted).length;
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
function listInOrder(world: World, parts: readonly Part[], limit: number): readonly Listed[] {
  const listed: Listed[] = [];
  const { ledger, machines } = world;
  const served = isChanging(world) ? futureOf(world).placed : new Set<number>();
  // The grants that the quota admits beside the listed ones. In a StrictFIFO queue nothing is listed behind a request that is not listed.
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
    const after = placeAfter(place);
    const isStrict = waiting.queue !== undefined && isStrictQueue(waiting.queue, ledger);
    const isServed = served.has(place.sequence);
    const last = listed.at(-1);
    // Its other options have the next turns: whether they are admitted was found with the first one.
    const isListed = last?.reservation.sequence === place.sequence;
    const isAdmitted = isListed
      ? last.options.some((option) => option.place.option === place.option)
      : isServed || (!blocked.has(waiting.queue ?? "") && findQuotaShortage(waiting, place, admitting) === undefined);
    if (isAdmitted) {
      if (!isServed && !isListed) {
        const reservation = knownReservation(ledger, place.sequence);
        needsLeft -= reservation.needs.length;
        if (needsLeft < 0) break;
        const options =
          place.option === undefined ? [{ place, demand: waiting }] : listAdmitted(reservation, admitting);
        listed.push({ reservation, options });
        listedByKind.set(waiting.ownerKind, ofKind + 1);
        admitting = withAsked(options[0]?.demand ?? waiting, admitting);
      }
      // Where the quota stops one, it stops all behind it in its class.
      const behind = waiting.places.first(after);
      if (behind !== undefined) turns = turns.set(behind[0], { waiting, heads: undefined });
    } else if (isStrict && !isListed && isStopped(place, admitting)) blocked.add(waiting.queue ?? "");
    for (const [later, next] of heads === undefined ? [] : turnsOf(heads, after)) turns = turns.set(later, next);
  }
  return listed;
}

/** The options of a request that the quota admits, the nearest quota first. */
function listAdmitted(reservation: Reservation, world: World): readonly Admitted[] {
  return listOptions(reservation)
    .filter(({ demand, place }) => findQuotaShortage(demand, place, world) === undefined)
    .map((option) => ({ option, level: levelOfDemand(option.demand, world) }))
    .sort((a, b) => a.level - b.level)
    .map(({ option }) => option);
}

/** Returns whether the quota admits no option of the request; it does not admit the one at this place. */
function isStopped({ option, sequence }: Place, world: World): boolean {
  return option === undefined || listAdmitted(knownReservation(world.ledger, sequence), world).length === 0;
}

/** Counts the request as granted, for the quota of later requests. */
function withAsked({ queue, needs }: Demand, { ledger, machines }: World): World {
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
