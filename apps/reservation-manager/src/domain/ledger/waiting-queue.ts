import { amountsKey, withoutMinimum } from "@muster/resources";
import { optionsOf } from "./pool-options.ts";
import { countByPool, viewKey, type Need, type PoolGang, type PoolNeed, type Reservation } from "./reservation.ts";
import { compareNumbers, compareText, SortedMap } from "./sorted-map.ts";
import type { Steps } from "./steps.ts";

/** Place of a request in the queue: priority, then age, then the order of arrival. */
export type Place = {
  readonly priority: number;
  readonly createdAtMs: number;
  readonly sequence: number;
  /** Which of its options (`optionsOf`) stands there; absent: it has one, or the request as a whole is meant. */
  readonly option?: number;
};

/**
 * Requests that are alike in everything that a grant depends on. A request with several options is in the class of each of them. When the first one does not
 * fit, none does, so a decision visits classes and never at all the requests behind them.
 */
export type WaitingClass = {
  readonly ownerKind: string;
  /** Undefined: no quota concerns it. */
  readonly queue?: string | undefined;
  readonly priority: number;
  /** In the order of the pools' names. */
  readonly needs: readonly PoolNeed[];
  readonly topology?: string | undefined;
  /** As in `Reservation`; only with a queue. */
  readonly notPreemptible?: true | undefined;
  /** Equal for classes that ask for the same. Empty without a queue: shapes are their index. */
  readonly gangKey: string;
  readonly places: SortedMap<Place, true>;
};

/** Classes without a queue that need the same machines, higher priorities first. */
export type Shape = {
  readonly needs: readonly PoolNeed[];
  readonly topology?: string | undefined;
  readonly classes: SortedMap<ClassKey, WaitingClass>;
};

type ClassKey = Pick<WaitingClass, "priority" | "ownerKind">;

/** `counts`: whole machines by pool; `parts`: the requests of the parts. */
type ShapeKey = { readonly counts: readonly number[]; readonly parts: string };

/**
 * Shapes that need machines of the same pools, selections and topology, by how many they need of each: what needs more whole machines of the first pool comes
 * later.
 */
type PoolGroup = {
  readonly pools: readonly string[];
  /** They have a topology or select labels or taints, so that they may accept nodes that are not free for others. With only a minimum they do not. */
  readonly hasViews: boolean;
  /** The shapes of the requests without a queue. */
  readonly shapes: SortedMap<ShapeKey, Shape>;
  /** How many of the shapes have parts: only these may fit where a pool has no free machine. */
  readonly shapesWithParts: number;
  /** By owner kind: a scan in queue order for some pools and kinds visits no others. */
  readonly kinds: SortedMap<string, WaitingKind>;
};

/** The requests of one owner kind: how many, and the first one of each class, in queue order. */
export type WaitingKind = { readonly waiting: number; readonly heads: SortedMap<Place, WaitingClass> };

/** The waiting requests, with an index for each query of the decisions. */
export type WaitingQueue = {
  readonly places: SortedMap<Place, true>;
  /** The first request of each class without a queue, in queue order. */
  readonly heads: SortedMap<Place, WaitingClass>;
  /** By the pools that are needed, in the order of the first one's name: where it has nothing free, none of its groups is looked at. */
  readonly groups: SortedMap<string, PoolGroup>;
  readonly waitingByPool: SortedMap<string, number>;
  /** The requests that name a queue. */
  readonly byQueue: SortedMap<string, QueuedRequests>;
};

/** The requests of one queue. */
export type QueuedRequests = {
  readonly places: SortedMap<Place, true>;
  /** The first request of each class, in their order. */
  readonly heads: SortedMap<Place, WaitingClass>;
  readonly classes: SortedMap<string, WaitingClass>;
};

/** Requests that are looked at between two steps: a few milliseconds. */
const REQUESTS_PER_STEP = 2000;

/** Lists whose shape is remembered while a queue is built. */
const MAX_KEPT_SHAPES = 10_000;

export const emptyQueue: WaitingQueue = {
  places: SortedMap.empty(comparePlaces),
  heads: SortedMap.empty(comparePlaces),
  groups: SortedMap.empty(compareText),
  waitingByPool: SortedMap.empty(compareText),
  byQueue: SortedMap.empty(compareText),
};

const noRequests: QueuedRequests = {
  places: SortedMap.empty(comparePlaces),
  heads: SortedMap.empty(comparePlaces),
  classes: SortedMap.empty(compareText),
};

export function placeOf({ priority, createdAtMs, sequence }: Reservation): Place {
  return { priority, createdAtMs, sequence };
}

export function comparePlaces(a: Place, b: Place): number {
  return (
    compareNumbers(b.priority, a.priority) ||
    compareNumbers(a.createdAtMs, b.createdAtMs) ||
    compareNumbers(a.sequence, b.sequence) ||
    compareNumbers(a.option ?? 0, b.option ?? 0)
  );
}

/** The place after all options of the request: none of them is behind it. */
export function endOf(place: Place): Place {
  return place.option === undefined ? place : { ...place, option: Number.POSITIVE_INFINITY };
}

/** The first place behind this one, which may be that of the next option of the same request. */
export function placeAfter(place: Place): Place {
  return { ...place, option: (place.option ?? 0) + 1 };
}

/** The first place that another request behind this one may have. */
export function nextRequestAfter({ priority, createdAtMs, sequence }: Place): Place {
  return { priority, createdAtMs, sequence: sequence + 1 };
}

/** A way to grant a request: the pools of its needs are chosen. */
export type RequestOption = { readonly place: Place; readonly needs: readonly Need[] };

/** In order of preference. */
export function optionsOfRequest(reservation: Reservation): readonly RequestOption[] {
  const place = placeOf(reservation);
  const options = optionsOf(reservation.needs);
  if (options.length === 1) return [{ place, needs: reservation.needs }];
  return options.map((needs, option) => ({ place: { ...place, option }, needs }));
}

/** The needs of the option that stands at the place. */
export function needsAt({ needs }: Pick<Reservation, "needs">, { option }: Place): readonly Need[] {
  return option === undefined ? needs : (optionsOf(needs)[option] ?? needs);
}

/** The place before which everything of a higher priority stands, and nothing else. */
export function firstPlaceOf(priority: number): Place {
  return { priority, createdAtMs: Number.NEGATIVE_INFINITY, sequence: 0 };
}

/** The queue of these requests, for much less than adding one after the other. */
export function* buildQueue(reservations: readonly Reservation[]): Steps<WaitingQueue> {
  const waitingByPool = new Map<string, number>();
  const gathered = new Map<string, { first: Reservation; needs: readonly PoolNeed[]; places: [Place, true][] }>();
  const places: [Place, true][] = [];
  const queued = new Map<string, { classes: WaitingClass[]; places: [Place, true][] }>();
  const shapeOf = rememberShapes();
  for (const [index, reservation] of reservations.entries()) {
    if (index % REQUESTS_PER_STEP === 0) yield;
    const { owner, priority, topology = "", queue = "" } = reservation;
    const isNotPreemptible = queue !== "" && reservation.notPreemptible === true;
    const pools = new Set<string>();
    for (const option of optionsOfRequest(reservation)) {
      const { needs, key } = shapeOf(option.needs);
      const alike = `${key} ${topology} ${priority} ${owner.kind} ${queue}${isNotPreemptible ? " !" : ""}`;
      const same = gathered.get(alike) ?? { first: reservation, needs, places: [] };
      same.places.push([option.place, true]);
      gathered.set(alike, same);
      for (const { pool } of needs) pools.add(pool);
    }
    const place: [Place, true] = [placeOf(reservation), true];
    places.push(place);
    if (reservation.queue !== undefined) {
      const same = queued.get(queue) ?? { classes: [], places: [] };
      same.places.push(place);
      queued.set(queue, same);
    }
    for (const pool of pools) waitingByPool.set(pool, (waitingByPool.get(pool) ?? 0) + 1);
  }
  let { heads, groups } = emptyQueue;
  for (const { first, needs, places: ofClass } of gathered.values()) {
    const waiting = { ...newClass(first, needs), places: yield* SortedMap.inSteps(comparePlaces, ofClass) };
    groups = replaceInGroups(groups, waiting.places.size, undefined, waiting);
    if (waiting.queue === undefined) heads = replaceHead(heads, undefined, waiting);
    else queued.get(waiting.queue)?.classes.push(waiting);
  }
  let { byQueue } = emptyQueue;
  for (const [queue, { classes, places: ofQueue }] of queued) {
    const gatheredClasses = classes.reduce((all, waiting) => withClass(all, undefined, waiting), noRequests);
    byQueue = byQueue.set(queue, { ...gatheredClasses, places: yield* SortedMap.inSteps(comparePlaces, ofQueue) });
  }
  return {
    places: yield* SortedMap.inSteps(comparePlaces, places),
    heads,
    groups,
    waitingByPool: SortedMap.from(compareText, waitingByPool),
    byQueue,
  };
}

/** The shapes of lists of needs, computed once for lists that are identical. */
function rememberShapes() {
  const known = new Map<readonly Need[], { readonly needs: readonly PoolNeed[]; readonly key: string }>();
  return (list: readonly Need[]) => {
    const same = known.get(list);
    if (same !== undefined) return same;
    const needs = countByPool(list);
    const { counts, parts } = shapeKey(needs);
    const shape = { needs, key: `${groupKey({ needs })} ${counts.join(" ")} ${parts}` };
    if (known.size < MAX_KEPT_SHAPES) known.set(list, shape);
    return shape;
  };
}

/** The requests among which this one has its place: all, or those of its queue if it has one. */
export function placesAround({ queue }: Reservation, { places, byQueue }: WaitingQueue): WaitingQueue["places"] {
  return queue === undefined ? places : (byQueue.get(queue)?.places ?? noRequests.places);
}

export function countAhead(reservation: Reservation, queue: WaitingQueue): number {
  return placesAround(reservation, queue).rank(placeOf(reservation));
}

/** The groups whose first pool is this one. */
export function* groupsOf(queue: WaitingQueue, pool: string): Generator<PoolGroup> {
  for (const [, group] of queue.groups.entries(pool)) {
    if (group.pools[0] !== pool) return;
    yield group;
  }
}

export function enqueue(queue: WaitingQueue, reservation: Reservation): WaitingQueue {
  return replaceRequest(queue, reservation, 1);
}

export function dequeue(queue: WaitingQueue, reservation: Reservation): WaitingQueue {
  return replaceRequest(queue, reservation, -1);
}

/** Adds the request to the class of each of its options, or removes it. */
function replaceRequest(queue: WaitingQueue, reservation: Reservation, change: 1 | -1): WaitingQueue {
  const { queue: name, sequence } = reservation;
  let { heads, groups } = queue;
  let ofQueue = name === undefined ? undefined : (queue.byQueue.get(name) ?? noRequests);
  const pools = new Set<string>();
  for (const option of optionsOfRequest(reservation)) {
    const asked = newClass(reservation, countByPool(option.needs));
    const previous = classOf({ groups, requests: ofQueue }, asked);
    if (previous === undefined && change === -1) throw new Error(`reservation ${sequence} does not wait`);
    // One list of needs for all requests of a class: caches are keyed by its identity.
    const before = previous ?? asked;
    const next = { ...before, places: withPlace(before.places, option.place, change) };
    groups = replaceInGroups(groups, change, previous, next);
    if (ofQueue === undefined) heads = replaceHead(heads, previous, next);
    else ofQueue = withClass(ofQueue, previous, next);
    for (const { pool } of next.needs) pools.add(pool);
  }
  const place = placeOf(reservation);
  return {
    places: withPlace(queue.places, place, change),
    heads,
    groups,
    waitingByPool: [...pools].reduce((counts, pool) => addTo(counts, pool, change), queue.waitingByPool),
    byQueue:
      name === undefined || ofQueue === undefined
        ? queue.byQueue
        : replaceQueue(queue.byQueue, name, { ...ofQueue, places: withPlace(ofQueue.places, place, change) }),
  };
}

function withPlace(places: SortedMap<Place, true>, place: Place, change: 1 | -1): SortedMap<Place, true> {
  return change === 1 ? places.set(place, true) : places.delete(place);
}

function replaceQueue(
  byQueue: WaitingQueue["byQueue"],
  name: string,
  requests: QueuedRequests,
): WaitingQueue["byQueue"] {
  return requests.places.size === 0 ? byQueue.delete(name) : byQueue.set(name, requests);
}

/** The class of a request that waits, with the pools of one of its options. */
export function classOfOption(queue: WaitingQueue, reservation: Reservation, place: Place): WaitingClass {
  const waiting = findClassOfOption(queue, reservation, place);
  if (waiting === undefined) throw new Error(`reservation ${reservation.sequence} does not wait`);
  return waiting;
}

/** As `classOfOption`; undefined: the request does not wait. */
export function findClassOfOption(
  { groups, byQueue }: WaitingQueue,
  reservation: Reservation,
  place: Place,
): WaitingClass | undefined {
  const asked = newClass(reservation, countByPool(needsAt(reservation, place)));
  const requests = reservation.queue === undefined ? undefined : byQueue.get(reservation.queue);
  return classOf({ groups, requests }, asked);
}

function newClass(reservation: Reservation, needs: readonly PoolNeed[]): WaitingClass {
  const { owner, priority, topology, queue } = reservation;
  const gangKey = queue === undefined ? "" : keyOfGang({ needs, topology });
  const notPreemptible = queue === undefined ? undefined : reservation.notPreemptible;
  const asked = { ownerKind: owner.kind, queue, priority, topology, notPreemptible, needs, gangKey };
  return { ...asked, places: SortedMap.empty(comparePlaces) };
}

function keyOfGang(gang: PoolGang): string {
  const { counts, parts } = shapeKey(gang.needs);
  return `${groupKey(gang)} ${counts.join(" ")} ${parts}`;
}

function classOf(
  { groups, requests }: Pick<WaitingQueue, "groups"> & { readonly requests: QueuedRequests | undefined },
  asked: WaitingClass,
): WaitingClass | undefined {
  if (asked.queue !== undefined) return requests?.classes.get(keyInQueue(asked));
  return groups.get(groupKey(asked))?.shapes.get(shapeKey(asked.needs))?.classes.get(asked);
}

function keyInQueue({ gangKey, priority, ownerKind, notPreemptible }: WaitingClass): string {
  return `${gangKey} ${priority} ${ownerKind} ${notPreemptible === true ? "!" : ""}`;
}

function withClass(requests: QueuedRequests, previous: WaitingClass | undefined, next: WaitingClass): QueuedRequests {
  const key = keyInQueue(next);
  const { classes } = requests;
  return {
    ...requests,
    heads: replaceHead(requests.heads, previous, next),
    classes: next.places.size === 0 ? classes.delete(key) : classes.set(key, next),
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

function replaceInGroups(
  groups: WaitingQueue["groups"],
  change: number,
  previous: WaitingClass | undefined,
  next: WaitingClass,
): WaitingQueue["groups"] {
  const { needs, topology } = next;
  const key = groupKey(next);
  const group = groups.get(key);
  const kinds = replaceInKinds(group?.kinds ?? SortedMap.empty(compareText), change, previous, next);
  if (kinds.size === 0) return groups.delete(key);
  const pools = needs.map(({ pool }) => pool);
  const hasViews = topology !== undefined || needs.some(({ selection }) => withoutMinimum(selection) !== undefined);
  const shapes = replaceInShapes(group, next);
  return groups.set(key, { pools, hasViews, ...shapes, kinds });
}

function replaceInShapes(
  group: PoolGroup | undefined,
  next: WaitingClass,
): Pick<PoolGroup, "shapes" | "shapesWithParts"> {
  const { needs, topology } = next;
  const { shapes = SortedMap.empty<ShapeKey, Shape>(compareShapes), shapesWithParts = 0 } = group ?? {};
  if (next.queue !== undefined) return { shapes, shapesWithParts };
  const shape = shapeKey(needs);
  const before = shapes.get(shape)?.classes ?? SortedMap.empty<ClassKey, WaitingClass>(compareClasses);
  const classes = next.places.size === 0 ? before.delete(next) : before.set(next, next);
  const after = classes.size === 0 ? shapes.delete(shape) : shapes.set(shape, { needs, topology, classes });
  const added = shape.parts === "" ? 0 : after.size - shapes.size;
  return { shapes: after, shapesWithParts: shapesWithParts + added };
}

function replaceInKinds(
  kinds: PoolGroup["kinds"],
  change: number,
  previous: WaitingClass | undefined,
  next: WaitingClass,
): PoolGroup["kinds"] {
  const { ownerKind } = next;
  const before = kinds.get(ownerKind) ?? { waiting: 0, heads: SortedMap.empty<Place, WaitingClass>(comparePlaces) };
  const waiting = before.waiting + change;
  if (waiting === 0) return kinds.delete(ownerKind);
  return kinds.set(ownerKind, { waiting, heads: replaceHead(before.heads, previous, next) });
}

/** Adds to a count; a count of 0 is not kept, so that the map does not grow with names that are gone. */
export function addTo(counts: SortedMap<string, number>, key: string, change: number): SortedMap<string, number> {
  const count = (counts.get(key) ?? 0) + change;
  return count === 0 ? counts.delete(key) : counts.set(key, count);
}

/** A space is in no name and sorts before all that is, as the mark of a selection does, so groups with one first pool stand together. */
function groupKey({ needs, topology }: PoolGang): string {
  const key = needs.map(viewKey).join(" ");
  return topology === undefined ? key : `${key} !${topology}`;
}

function shapeKey(needs: readonly PoolNeed[]): ShapeKey {
  const hasParts = needs.some(({ shared }) => shared.length > 0);
  const parts = hasParts ? needs.map(({ shared }) => shared.map(amountsKey).join("")).join(" ") : "";
  return { counts: needs.map(({ count }) => count), parts };
}

/** Only for needs of the same pools. */
function compareShapes(a: ShapeKey, b: ShapeKey): number {
  for (const [index, count] of a.counts.entries()) {
    const order = compareNumbers(count, b.counts[index] ?? 0);
    if (order !== 0) return order;
  }
  return compareText(a.parts, b.parts);
}

function compareClasses(a: ClassKey, b: ClassKey): number {
  return compareNumbers(b.priority, a.priority) || compareText(a.ownerKind, b.ownerKind);
}
