import { buildAmountsKey, withoutMinimum } from "@muster/resources";
import { listNeedOptions } from "./pool-options.ts";
import { countByPool, buildViewKey, type Need, type PoolGang, type PoolNeed, type Reservation } from "./reservation.ts";
import { compareNumbers, compareText, SortedMap } from "./sorted-map.ts";
import type { Steps } from "./steps.ts";

/** Place of a request in the queue: priority, then age, then the order of arrival. */
export type QueuePosition = {
  readonly priority: number;
  readonly createdAtMs: number;
  readonly sequence: number;
  /** The option of the request (`listRequestOptions`) at this place; absent: the request has one option, or is meant as a whole. */
  readonly option?: number;
};

/**
 * Requests that are equal in everything that a grant depends on. A request with several options is in one class per option. If the first request of a class
 * does not fit, none does, so decisions skip the rest.
 */
export type WaitingClass = {
  readonly ownerKind: string;
  /** Undefined: no quota concerns it. */
  readonly queue?: string | undefined;
  readonly priority: number;
  /** Needs in the order of the pools' names. */
  readonly needs: readonly PoolNeed[];
  readonly topology?: string | undefined;
  /** As in `Reservation`; only with a queue. */
  readonly notPreemptible?: true | undefined;
  /** Equal for classes with equal needs. Empty without a queue, where the shape is the index. */
  readonly gangKey: string;
  readonly places: SortedMap<QueuePosition, true>;
};

/** Classes without a queue that need the same machines, the highest priority first. */
export type RequestShape = {
  readonly needs: readonly PoolNeed[];
  readonly topology?: string | undefined;
  readonly classes: SortedMap<ClassKey, WaitingClass>;
};

type ClassKey = Pick<WaitingClass, "priority" | "ownerKind">;

/** `counts`: whole machines by pool; `parts`: the requests of the parts. */
type ShapeKey = { readonly counts: readonly number[]; readonly parts: string };

/**
 * Shapes that need machines of the same pools, selections and topology, ordered by the number needed of each: more whole machines of the first pool come later.
 */
type PoolGroup = {
  readonly pools: readonly string[];
  /** The needs have a topology, or select labels or taints, so they may accept nodes that are not free for others. A minimum size alone does not count. */
  readonly hasViews: boolean;
  /** The shapes of the requests without a queue. */
  readonly shapes: SortedMap<ShapeKey, RequestShape>;
  /** Number of shapes with parts: only these may fit if a pool has no free machine. */
  readonly shapesWithParts: number;
  /** Requests by owner kind, so that a scan for some pools and kinds visits no others. */
  readonly kinds: SortedMap<string, WaitingKind>;
};

/** The requests of one owner kind: their number, and the first one of each class in queue order. */
export type WaitingKind = { readonly waiting: number; readonly heads: SortedMap<QueuePosition, WaitingClass> };

/** The waiting requests, with an index for each query of the decisions. */
export type WaitingQueue = {
  readonly places: SortedMap<QueuePosition, true>;
  /** The first request of each class without a queue, in queue order. */
  readonly heads: SortedMap<QueuePosition, WaitingClass>;
  /** Groups by needed pools, in the order of the first pool's name: if that pool has nothing free, a decision skips its groups. */
  readonly groups: SortedMap<string, PoolGroup>;
  readonly waitingByPool: SortedMap<string, number>;
  /** The requests that name a queue. */
  readonly byQueue: SortedMap<string, QueuedRequests>;
};

/** The requests of one queue. */
export type QueuedRequests = {
  readonly places: SortedMap<QueuePosition, true>;
  /** The first request of each class, in queue order. */
  readonly heads: SortedMap<QueuePosition, WaitingClass>;
  readonly classes: SortedMap<string, WaitingClass>;
};

/** Requests visited per step, which takes a few milliseconds. */
const REQUESTS_PER_STEP = 2000;

/** Limit of lists whose shape is cached while a queue is built. */
const MAX_KEPT_SHAPES = 10_000;

export const emptyQueue: WaitingQueue = {
  places: SortedMap.empty(compareQueuePositions),
  heads: SortedMap.empty(compareQueuePositions),
  groups: SortedMap.empty(compareText),
  waitingByPool: SortedMap.empty(compareText),
  byQueue: SortedMap.empty(compareText),
};

const noRequests: QueuedRequests = {
  places: SortedMap.empty(compareQueuePositions),
  heads: SortedMap.empty(compareQueuePositions),
  classes: SortedMap.empty(compareText),
};

export function getQueuePosition({ priority, createdAtMs, sequence }: Reservation): QueuePosition {
  return { priority, createdAtMs, sequence };
}

export function compareQueuePositions(a: QueuePosition, b: QueuePosition): number {
  return (
    compareNumbers(b.priority, a.priority) ||
    compareNumbers(a.createdAtMs, b.createdAtMs) ||
    compareNumbers(a.sequence, b.sequence) ||
    compareNumbers(a.option ?? 0, b.option ?? 0)
  );
}

/** The place after all options of the request. */
export function getEndOfOptions(place: QueuePosition): QueuePosition {
  return place.option === undefined ? place : { ...place, option: Number.POSITIVE_INFINITY };
}

/** The next possible place, such as that of the next option of the same request. */
export function getPlaceAfter(place: QueuePosition): QueuePosition {
  return { ...place, option: (place.option ?? 0) + 1 };
}

/** The next possible place of another request. */
export function findNextRequest({ priority, createdAtMs, sequence }: QueuePosition): QueuePosition {
  return { priority, createdAtMs, sequence: sequence + 1 };
}

/** One way to grant a request, with one pool chosen per need. */
export type RequestOption = { readonly place: QueuePosition; readonly needs: readonly Need[] };

/** Lists the options of the request in order of preference. */
export function listRequestOptions(reservation: Reservation): readonly RequestOption[] {
  const place = getQueuePosition(reservation);
  const options = listNeedOptions(reservation.needs);
  if (options.length === 1) return [{ place, needs: reservation.needs }];
  return options.map((needs, option) => ({ place: { ...place, option }, needs }));
}

/** Returns the needs of the option at this place. */
export function getNeedsAt({ needs }: Pick<Reservation, "needs">, { option }: QueuePosition): readonly Need[] {
  return option === undefined ? needs : (listNeedOptions(needs)[option] ?? needs);
}

/** The place that separates higher priorities from this one and lower ones. */
export function findFirstPlace(priority: number): QueuePosition {
  return { priority, createdAtMs: Number.NEGATIVE_INFINITY, sequence: 0 };
}

/** Builds the queue of these requests faster than adding one after the other. */
export function* buildQueue(reservations: readonly Reservation[]): Steps<WaitingQueue> {
  const waitingByPool = new Map<string, number>();
  const gathered = new Map<
    string,
    { first: Reservation; needs: readonly PoolNeed[]; places: [QueuePosition, true][] }
  >();
  const places: [QueuePosition, true][] = [];
  const queued = new Map<string, { classes: WaitingClass[]; places: [QueuePosition, true][] }>();
  const shapeOf = rememberShapes();
  for (const [index, reservation] of reservations.entries()) {
    if (index % REQUESTS_PER_STEP === 0) yield;
    const { owner, priority, topology = "", queue = "" } = reservation;
    const isNotPreemptible = queue !== "" && reservation.notPreemptible === true;
    const pools = new Set<string>();
    for (const option of listRequestOptions(reservation)) {
      const { needs, key } = shapeOf(option.needs);
      const alike = `${key} ${topology} ${priority} ${owner.kind} ${queue}${isNotPreemptible ? " !" : ""}`;
      const same = gathered.get(alike) ?? { first: reservation, needs, places: [] };
      same.places.push([option.place, true]);
      gathered.set(alike, same);
      for (const { pool } of needs) pools.add(pool);
    }
    const place: [QueuePosition, true] = [getQueuePosition(reservation), true];
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
    const waiting = { ...newClass(first, needs), places: yield* SortedMap.inSteps(compareQueuePositions, ofClass) };
    groups = replaceInGroups(groups, waiting.places.size, undefined, waiting);
    if (waiting.queue === undefined) heads = replaceHead(heads, undefined, waiting);
    else queued.get(waiting.queue)?.classes.push(waiting);
  }
  let { byQueue } = emptyQueue;
  for (const [queue, { classes, places: ofQueue }] of queued) {
    const gatheredClasses = classes.reduce((all, waiting) => withClass(all, undefined, waiting), noRequests);
    byQueue = byQueue.set(queue, {
      ...gatheredClasses,
      places: yield* SortedMap.inSteps(compareQueuePositions, ofQueue),
    });
  }
  return {
    places: yield* SortedMap.inSteps(compareQueuePositions, places),
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

/** Returns the places that the request competes with: those of its queue, or all without a queue. */
export function findPlacesAround({ queue }: Reservation, { places, byQueue }: WaitingQueue): WaitingQueue["places"] {
  return queue === undefined ? places : (byQueue.get(queue)?.places ?? noRequests.places);
}

export function countAhead(reservation: Reservation, queue: WaitingQueue): number {
  return findPlacesAround(reservation, queue).rank(getQueuePosition(reservation));
}

/** Yields the groups whose first pool is this one. */
export function* listGroups(queue: WaitingQueue, pool: string): Generator<PoolGroup> {
  for (const [, group] of queue.groups.entries(pool)) {
    if (group.pools[0] !== pool) return;
    yield group;
  }
}

export function enqueueRequest(queue: WaitingQueue, reservation: Reservation): WaitingQueue {
  return replaceRequest(queue, reservation, 1);
}

export function dequeueRequest(queue: WaitingQueue, reservation: Reservation): WaitingQueue {
  return replaceRequest(queue, reservation, -1);
}

/** Adds the request to the class of each of its options, or removes it. */
function replaceRequest(queue: WaitingQueue, reservation: Reservation, change: 1 | -1): WaitingQueue {
  const { queue: name, sequence } = reservation;
  let { heads, groups } = queue;
  let ofQueue = name === undefined ? undefined : (queue.byQueue.get(name) ?? noRequests);
  const pools = new Set<string>();
  for (const option of listRequestOptions(reservation)) {
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
  const place = getQueuePosition(reservation);
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

function withPlace(
  places: SortedMap<QueuePosition, true>,
  place: QueuePosition,
  change: 1 | -1,
): SortedMap<QueuePosition, true> {
  return change === 1 ? places.set(place, true) : places.delete(place);
}

function replaceQueue(
  byQueue: WaitingQueue["byQueue"],
  name: string,
  requests: QueuedRequests,
): WaitingQueue["byQueue"] {
  return requests.places.size === 0 ? byQueue.delete(name) : byQueue.set(name, requests);
}

/** Returns the class of one option of a waiting request. */
export function getClassOfOption(queue: WaitingQueue, reservation: Reservation, place: QueuePosition): WaitingClass {
  const waiting = findClassOfOption(queue, reservation, place);
  if (waiting === undefined) throw new Error(`reservation ${reservation.sequence} does not wait`);
  return waiting;
}

/** As `getClassOfOption`; undefined: the request does not wait. */
export function findClassOfOption(
  { groups, byQueue }: WaitingQueue,
  reservation: Reservation,
  place: QueuePosition,
): WaitingClass | undefined {
  const asked = newClass(reservation, countByPool(getNeedsAt(reservation, place)));
  const requests = reservation.queue === undefined ? undefined : byQueue.get(reservation.queue);
  return classOf({ groups, requests }, asked);
}

function newClass(reservation: Reservation, needs: readonly PoolNeed[]): WaitingClass {
  const { owner, priority, topology, queue } = reservation;
  const gangKey = queue === undefined ? "" : keyOfGang({ needs, topology });
  const notPreemptible = queue === undefined ? undefined : reservation.notPreemptible;
  const asked = { ownerKind: owner.kind, queue, priority, topology, notPreemptible, needs, gangKey };
  return { ...asked, places: SortedMap.empty(compareQueuePositions) };
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
  const { shapes = SortedMap.empty<ShapeKey, RequestShape>(compareShapes), shapesWithParts = 0 } = group ?? {};
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
  const before = kinds.get(ownerKind) ?? {
    waiting: 0,
    heads: SortedMap.empty<QueuePosition, WaitingClass>(compareQueuePositions),
  };
  const waiting = before.waiting + change;
  if (waiting === 0) return kinds.delete(ownerKind);
  return kinds.set(ownerKind, { waiting, heads: replaceHead(before.heads, previous, next) });
}

/** Adds to a count and drops a count of 0, so that names that are no longer used do not accumulate. */
export function addTo(counts: SortedMap<string, number>, key: string, change: number): SortedMap<string, number> {
  const count = (counts.get(key) ?? 0) + change;
  return count === 0 ? counts.delete(key) : counts.set(key, count);
}

/** Names contain no space, which sorts before all other characters, so groups with one first pool are adjacent. */
function groupKey({ needs, topology }: PoolGang): string {
  const key = needs.map(buildViewKey).join(" ");
  return topology === undefined ? key : `${key} !${topology}`;
}

function shapeKey(needs: readonly PoolNeed[]): ShapeKey {
  const hasParts = needs.some(({ shared }) => shared.length > 0);
  const parts = hasParts ? needs.map(({ shared }) => shared.map(buildAmountsKey).join("")).join(" ") : "";
  return { counts: needs.map(({ count }) => count), parts };
}

/** Compares the shapes of needs of the same pools; other shapes are not comparable. */
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
