import { explainWaiting, type WaitReason } from "./explain-waiting.ts";
import { findHold, roomFor, type HoldPolicy } from "./fit.ts";
import { knownReservation, type Ledger } from "./ledger.ts";
import type { Reservation } from "./reservation.ts";
import { SortedMap } from "./sorted-map.ts";
import { comparePlaces, type Place, type WaitingClass } from "./waiting-queue.ts";
import type { World } from "./world.ts";

export type DemandRequest = {
  /** Only reservations with a need in one of these; empty: in any pool. */
  readonly pools: readonly string[];
  readonly limit: number;
};

/** What waits for machines, in queue order; `more` counts what would be in the list as well if it were longer. */
export type DemandList = {
  readonly reports: readonly { readonly reservation: Reservation; readonly because: WaitReason | undefined }[];
  readonly more: number;
};

/** Needs of all listed reservations together: with the longest names that there are they still fit into one message. */
export const DEMAND_NEEDS_MAX = 4000;

/**
 * What further machines could bring forward. Of a kind with a concurrency limit that is as many as the limit leaves room for, since what comes behind them waits
 * for a release and not for machines. The cost is that of the classes of requests and of what is listed, not that of what waits.
 */
export function buildDemand(world: World, policy: HoldPolicy, nowMs: number, request: DemandRequest): DemandList {
  const { ledger } = world;
  const classes = findClasses(ledger, request.pools);
  const hold = findHold(world, policy, nowMs);
  const reservations = listInOrder(ledger, classes, request.limit);
  const reports = reservations.map((reservation) => {
    return { reservation, because: explainWaiting(reservation, world, hold) };
  });
  return { reports, more: countDemand(ledger, classes) - reservations.length };
}

/** The classes that need one of the pools and that their concurrency limit leaves room for, by the places of their first requests. */
function findClasses(ledger: Ledger, pools: readonly string[]): readonly (readonly [Place, WaitingClass])[] {
  const wanted = new Set(pools);
  return [...ledger.queue.heads.entries()].filter(
    ([, { ownerKind, needs }]) =>
      roomFor(ownerKind, ledger) > 0 && (wanted.size === 0 || needs.some(({ pool }) => wanted.has(pool))),
  );
}

function listInOrder(
  ledger: Ledger,
  classes: readonly (readonly [Place, WaitingClass])[],
  limit: number,
): readonly Reservation[] {
  const listed: Reservation[] = [];
  const listedByKind = new Map<string, number>();
  let needsLeft = DEMAND_NEEDS_MAX;
  let next = SortedMap.from(comparePlaces, classes);
  for (let head = next.first(); head !== undefined && listed.length < limit; head = next.first()) {
    const [place, waiting] = head;
    next = next.delete(place);
    const ofKind = listedByKind.get(waiting.ownerKind) ?? 0;
    if (ofKind >= roomFor(waiting.ownerKind, ledger)) continue;
    const reservation = knownReservation(ledger, place.sequence);
    needsLeft -= reservation.needs.length;
    if (needsLeft < 0) break;
    listed.push(reservation);
    listedByKind.set(waiting.ownerKind, ofKind + 1);
    const behind = waiting.places.first({ ...place, sequence: place.sequence + 1 });
    if (behind !== undefined) next = next.set(behind[0], waiting);
  }
  return listed;
}

function countDemand(ledger: Ledger, classes: readonly (readonly [Place, WaitingClass])[]): number {
  const byKind = new Map<string, number>();
  for (const [, { ownerKind, places }] of classes) byKind.set(ownerKind, (byKind.get(ownerKind) ?? 0) + places.size);
  return [...byKind].reduce((sum, [ownerKind, count]) => sum + Math.min(count, roomFor(ownerKind, ledger)), 0);
}
