import {
  computeAllocatedFraction,
  buildAmountsKey,
  compareLargestFirst,
  canFit,
  subtractAmounts,
  sumUse,
  type Amounts,
} from "@muster/resources";
import type { PoolNeed } from "./reservation.ts";
import { compareNumbers, compareText, SortedMap, type Summaries } from "./sorted-map.ts";

/** A node that can be granted in parts but not as a whole: parts of it are held, or foreign pods run on it. */
export type PartialNode = {
  readonly free: Amounts;
  /** Allocatable amounts of the node, less its overhead. */
  readonly allocatable: Amounts;
  /** Free amounts once all parts are released: less than `allocatable` while the node has foreign pods. */
  readonly potential: Amounts;
  /** Pods that the ledger does not know run on it, so releases alone do not free the node. */
  readonly hasForeignUse: boolean;
};

/** Orders nodes without extended resources first, then by size from small to large, then by name. */
export type FreeKey = { readonly isSpecial: boolean; readonly size: Amounts; readonly node: string };

/** Orders the most allocated node first, so that whole machines stay free. Orders ties as free nodes are ordered. */
export type PartialKey = FreeKey & { readonly fraction: number };

/** The part of a pool that can be granted now. */
export type Room = {
  /** Nodes that can be granted as a whole, and the allocatable amounts of each; undefined: unknown, so it is not granted in parts. */
  readonly free: SortedMap<FreeKey, Amounts | undefined>;
  readonly partial: SortedMap<PartialKey, PartialNode>;
};

export const emptyRoom: Room = { free: SortedMap.empty(compareFree), partial: SortedMap.empty(comparePartial) };

const UNKNOWN: Amounts = new Map();

/** A node of unknown size comes first among those without extended resources, because no part can use it. */
export function buildFreeKey(node: string, allocatable: Amounts | undefined): FreeKey {
  const size = allocatable ?? UNKNOWN;
  return { isSpecial: hasUnrequested(size, UNKNOWN), size, node };
}

export function buildPartialKey(
  node: string,
  { free, allocatable }: Pick<PartialNode, "free" | "allocatable">,
): PartialKey {
  return { fraction: computeAllocatedFraction(free, allocatable), ...buildFreeKey(node, allocatable) };
}

function compareFree(a: FreeKey, b: FreeKey): number {
  return (
    Number(a.isSpecial) - Number(b.isSpecial) ||
    (a.size === b.size ? 0 : compareLargestFirst(b.size, a.size)) ||
    compareText(a.node, b.node)
  );
}

function comparePartial(a: PartialKey, b: PartialKey): number {
  return compareNumbers(b.fraction, a.fraction) || compareFree(a, b);
}

/** A node for each part (undefined: none has room), and the remaining room. */
type Placed = { readonly nodes: readonly (string | undefined)[]; readonly room: Room };

/**
 * Places parts in the order of `compareLargestFirst`: on the most allocated node with room, otherwise on the smallest free node. Nodes with extended resources
 * that the part does not request come last. Names decide only between nodes of one size, so pools of the same sizes hold equal lists.
 *
 * This is first fit decreasing, a heuristic of bin packing: a list that it cannot place may still fit in another way.
 */
export function placeShared(room: Room, requests: readonly Amounts[]): Placed {
  const nodes: (string | undefined)[] = [];
  let left = room;
  let search = startSearch("");
  for (const request of requests) {
    const key = buildAmountsKey(request);
    if (search.key !== key) search = startSearch(key);
    const found = placeOne(left, request, search);
    nodes.push(found?.node);
    search = found?.search ?? { ...search, isOver: true };
    left = found?.room ?? left;
  }
  return { nodes, room: left };
}

/** The progress of the search for equal parts: a node without room for one of them has none for the next one. */
type Search = {
  readonly key: string;
  /** Position of the last placed part among the partial nodes. */
  readonly at: PartialKey | undefined;
  /** Only nodes with extended resources that the part does not request remain. */
  readonly isSpecial: boolean;
  /** Only partial nodes from this key on may have room; undefined: all. */
  readonly partialFrom: PartialKey | undefined;
  /** As `partialFrom`, for free nodes. */
  readonly freeFrom: FreeKey | undefined;
  /** No node has room. */
  readonly isOver: boolean;
};

type Found = { readonly node: string; readonly room: Room; readonly search: Search };

function startSearch(key: string): Search {
  return { key, at: undefined, isSpecial: false, partialFrom: undefined, freeFrom: undefined, isOver: false };
}

function placeOne(room: Room, request: Amounts, search: Search): Found | undefined {
  if (search.isOver) return undefined;
  const same = search.at && room.partial.get(search.at);
  if (search.at !== undefined && same !== undefined && canFit(request, same.free))
    return take(room, search.at, same, request, search);
  const plain = search.isSpecial ? undefined : findPlace(room, request, search);
  if (plain !== undefined) return plain;
  const special = search.isSpecial ? search : { ...startSearch(search.key), isSpecial: true };
  return findPlace(room, request, special);
}

function findPlace(room: Room, request: Amounts, search: Search): Found | undefined {
  const { isSpecial, partialFrom, freeFrom } = search;
  const mayFit = (most: Amounts): boolean => canFit(request, most);
  for (const [at, node] of room.partial.search(freeOfPartial, mayFit, partialFrom))
    if (canFit(request, node.free) && hasUnrequested(node.allocatable, request) === isSpecial)
      return take(room, at, node, request, { ...search, partialFrom: at });
  for (const [key, allocatable] of room.free.search(sizesOfFree, mayFit, freeFrom)) {
    if (allocatable === undefined || !canFit(request, allocatable)) continue;
    if (hasUnrequested(allocatable, request) !== isSpecial) continue;
    const partial = { free: allocatable, allocatable, potential: allocatable, hasForeignUse: false };
    const opened = { ...room, free: room.free.delete(key) };
    const next = { ...search, partialFrom: END, freeFrom: key };
    return take(opened, buildPartialKey(key.node, partial), partial, request, next);
  }
  return undefined;
}

/** Sorts after all partial nodes. */
const END: PartialKey = { fraction: -1, ...buildFreeKey("", undefined) };

function take(room: Room, at: PartialKey, node: PartialNode, request: Amounts, search: Search): Found {
  const after = { ...node, free: subtractAmounts(node.free, sumUse(request)) };
  const next = buildPartialKey(at.node, after);
  const partial = room.partial.delete(at).set(next, after);
  return { node: at.node, room: { ...room, partial }, search: { ...search, at: next } };
}

/** Returns whether the node has an extended resource, such as a GPU, that is not requested. */
function hasUnrequested(allocatable: Amounts, request: Amounts): boolean {
  for (const [resource, amount] of allocatable)
    if (amount > 0 && resource.includes("/") && (request.get(resource) ?? 0) === 0) return true;
  return false;
}

/**
 * Returns the room for others while machines are kept for this need: where its parts fit, plus one future node per missing machine or part. Future nodes are
 * free ones from the end of the order, because others take from the beginning, then the least allocated ones.
 *
 * A kept node gets no other part, so it only becomes emptier; the same holds for a node that replaces it later.
 */
export function withoutKept(room: Room, { count, shared }: Pick<PoolNeed, "count" | "shared">): Room {
  const { nodes, room: afterParts } = placeShared(room, shared);
  let left = afterParts;
  for (let missing = count; missing > 0; missing -= 1) {
    const free = left.free.last();
    if (free === undefined) left = withoutLast(left, ({ hasForeignUse }) => !hasForeignUse);
    else left = { ...left, free: left.free.delete(free[0]) };
  }
  // No free node has room for a missing part, or the part would have been placed there.
  for (const [index, request] of shared.entries())
    if (nodes[index] === undefined) left = withoutLast(left, ({ potential }) => canFit(request, potential));
  return left;
}

function withoutLast(room: Room, mayKeep: (node: PartialNode) => boolean): Room {
  const skipped: [PartialKey, PartialNode][] = [];
  let { partial } = room;
  for (let last = partial.last(); last !== undefined; last = partial.last()) {
    partial = partial.delete(last[0]);
    if (mayKeep(last[1])) break;
    skipped.push([last[0], last[1]]);
  }
  return { ...room, partial: skipped.reduce((kept, [key, node]) => kept.set(key, node), partial) };
}

/** False: at least one part of the need fits on no node now. */
export function mayHaveRoom({ free, partial }: Room, { shared }: Pick<PoolNeed, "shared">): boolean {
  if (shared.length === 0) return true;
  const most = mergeLargest(free.summary(sizesOfFree) ?? UNKNOWN, partial.summary(freeOfPartial) ?? UNKNOWN);
  return shared.every((request) => canFit(request, most));
}

/** By resource, the maximum of all nodes: a request beyond it fits on none of them. */
const sizesOfFree: Summaries<Amounts | undefined, Amounts> = {
  of: (allocatable) => allocatable,
  merge: mergeLargest,
  isCurrent: () => true,
  known: new WeakMap(),
};

const freeOfPartial: Summaries<PartialNode, Amounts> = {
  of: ({ free }) => free,
  merge: mergeLargest,
  isCurrent: () => true,
  known: new WeakMap(),
};

/** Returns one of both if it is at least as large in every resource, which avoids an allocation: most nodes are alike. */
function mergeLargest(a: Amounts, b: Amounts): Amounts {
  if (a === b || hasAllOf(a, b)) return a;
  return hasAllOf(b, a) ? b : findLargestAmounts([a, b]);
}

function hasAllOf(a: Amounts, b: Amounts): boolean {
  for (const [resource, amount] of b) if (amount > (a.get(resource) ?? 0)) return false;
  return true;
}

/** Maximum of each resource over these amounts; entries of 0 are omitted. */
export function findLargestAmounts(all: Iterable<Amounts>): Amounts {
  const most = new Map<string, number>();
  for (const amounts of all)
    for (const [resource, amount] of amounts) if (amount > (most.get(resource) ?? 0)) most.set(resource, amount);
  return most;
}
