import { countByPool, type PoolNeed, type Reservation } from "./reservation.ts";
import { compareNumbers, compareText, SortedMap } from "./sorted-map.ts";

/** Place of a request in the queue: priority, then age, then the order of arrival. */
export type Place = { readonly priority: number; readonly createdAtMs: number; readonly sequence: number };

/**
 * Requests that are alike in everything that a grant depends on. When the first of them does not fit, none of them does, so a decision looks at classes and
 * never at all the requests behind them.
 */
export type WaitingClass = {
  readonly ownerKind: string;
  readonly concurrencyLimit: number;
  readonly priority: number;
  /** In the order of the pools' names. */
  readonly needs: readonly PoolNeed[];
  readonly places: SortedMap<Place, true>;
};

type Classes = SortedMap<string, WaitingClass>;

/** The requests that wait, indexed by what decisions ask. */
export type WaitingQueue = {
  readonly places: SortedMap<Place, true>;
  /** The first request of each class, in queue order. */
  readonly heads: SortedMap<Place, WaitingClass>;
  /** Classes by the pools that they need: where one of these pools is empty, none of the classes is looked at. */
  readonly byPools: SortedMap<string, { readonly pools: readonly string[]; readonly classes: Classes }>;
  readonly waitingByPool: SortedMap<string, number>;
};

export const emptyQueue: WaitingQueue = {
  places: SortedMap.empty(comparePlaces),
  heads: SortedMap.empty(comparePlaces),
  byPools: SortedMap.empty(compareText),
  waitingByPool: SortedMap.empty(compareText),
};

export function placeOf({ priority, createdAtMs, sequence }: Reservation): Place {
  return { priority, createdAtMs, sequence };
}

export function comparePlaces(a: Place, b: Place): number {
  return (
    compareNumbers(b.priority, a.priority) ||
    compareNumbers(a.createdAtMs, b.createdAtMs) ||
    compareNumbers(a.sequence, b.sequence)
  );
}

/** The place before which everything of a higher priority stands, and nothing else. */
export function firstPlaceOf(priority: number): Place {
  return { priority, createdAtMs: Number.NEGATIVE_INFINITY, sequence: 0 };
}

export function enqueue(queue: WaitingQueue, reservation: Reservation): WaitingQueue {
  const needs = countByPool(reservation.needs);
  const previous = classOf(queue, reservation, needs);
  const place = placeOf(reservation);
  const { ownerKind, concurrencyLimit, priority, places } = previous ?? newClass(reservation);
  const next = { ownerKind, concurrencyLimit, priority, needs, places: places.set(place, true) };
  return replaceClass(queue, place, 1, previous, next);
}

export function dequeue(queue: WaitingQueue, reservation: Reservation): WaitingQueue {
  const previous = classOf(queue, reservation, countByPool(reservation.needs));
  if (previous === undefined) throw new Error(`reservation ${reservation.sequence} does not wait`);
  const place = placeOf(reservation);
  const next = { ...previous, places: previous.places.delete(place) };
  return replaceClass(queue, place, -1, previous, next);
}

function newClass({ owner, concurrencyLimit, priority }: Reservation): Omit<WaitingClass, "needs"> {
  return { ownerKind: owner.kind, concurrencyLimit, priority, places: SortedMap.empty(comparePlaces) };
}

function classOf(queue: WaitingQueue, reservation: Reservation, needs: readonly PoolNeed[]): WaitingClass | undefined {
  return queue.byPools.get(poolsKey(needs))?.classes.get(classKey({ ...newClass(reservation), needs }));
}

function replaceClass(
  queue: WaitingQueue,
  place: Place,
  change: 1 | -1,
  previous: WaitingClass | undefined,
  next: WaitingClass,
): WaitingQueue {
  return {
    places: change === 1 ? queue.places.set(place, true) : queue.places.delete(place),
    heads: replaceHead(queue.heads, previous, next),
    byPools: replaceInPools(queue.byPools, next),
    waitingByPool: next.needs.reduce((counts, { pool }) => addTo(counts, pool, change), queue.waitingByPool),
  };
}

function replaceHead(
  heads: WaitingQueue["heads"],
  previous: WaitingClass | undefined,
  next: WaitingClass,
): WaitingQueue["heads"] {
  const before = previous?.places.first();
  const after = next.places.first();
  const without = before === undefined ? heads : heads.delete(before[0]);
  return after === undefined ? without : without.set(after[0], next);
}

function replaceInPools(byPools: WaitingQueue["byPools"], next: WaitingClass): WaitingQueue["byPools"] {
  const key = poolsKey(next.needs);
  const group = byPools.get(key) ?? {
    pools: next.needs.map(({ pool }) => pool),
    classes: SortedMap.empty<string, WaitingClass>(compareText),
  };
  const classes =
    next.places.size === 0 ? group.classes.delete(classKey(next)) : group.classes.set(classKey(next), next);
  return classes.size === 0 ? byPools.delete(key) : byPools.set(key, { pools: group.pools, classes });
}

/** Adds to a count; a count of 0 is not kept, so that the map does not grow with names that are gone. */
export function addTo(counts: SortedMap<string, number>, key: string, change: number): SortedMap<string, number> {
  const count = (counts.get(key) ?? 0) + change;
  return count === 0 ? counts.delete(key) : counts.set(key, count);
}

function poolsKey(needs: readonly PoolNeed[]): string {
  return needs.map(({ pool }) => pool).join(" ");
}

function classKey({ ownerKind, concurrencyLimit, priority, needs }: Omit<WaitingClass, "places">): string {
  return `${ownerKind} ${concurrencyLimit} ${priority} ${needs.map(({ count }) => count).join(" ")}`;
}
