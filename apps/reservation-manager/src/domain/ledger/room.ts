import { allocatedFraction, fitsInto, subtract, useOf, type Amounts } from "@muster/resources";
import { amountsKey } from "./amounts.ts";
import type { PoolNeed } from "./reservation.ts";
import { compareNumbers, compareText, SortedMap } from "./sorted-map.ts";

/** A node that can be granted in parts and not as a whole: parts of it are held, or foreign pods are on it. */
export type PartialNode = {
  readonly free: Amounts;
  /** Without overhead. */
  readonly allocatable: Amounts;
  /** Pods are on it that the ledger does not know, so that it does not become free by releases. */
  readonly hasForeignUse: boolean;
};

/** The most allocated node first, ties by name, so that whole machines stay free. */
export type PartialKey = { readonly fraction: number; readonly node: string };

/** What can be granted of a pool now. */
export type Room = {
  /** Nodes that can be granted as a whole, and what each can allocate; undefined: not known, so that it is not granted in parts. */
  readonly free: SortedMap<string, Amounts | undefined>;
  readonly partial: SortedMap<PartialKey, PartialNode>;
};

export const emptyRoom: Room = { free: SortedMap.empty(compareText), partial: SortedMap.empty(comparePartial) };

export function partialKey(node: string, { free, allocatable }: PartialNode): PartialKey {
  return { fraction: allocatedFraction(free, allocatable), node };
}

function comparePartial(a: PartialKey, b: PartialKey): number {
  return compareNumbers(b.fraction, a.fraction) || compareText(a.node, b.node);
}

/** A node for each part, undefined where none has room for it, and the room that is left. */
type Placed = { readonly nodes: readonly (string | undefined)[]; readonly room: Room };

/**
 * Places parts one by one, as `compareLargestFirst` orders them: on the most allocated node with room for it, otherwise on the first free node. Nodes with
 * extended resources that the part does not request come after all others. First fit decreasing, a heuristic of bin packing: a list may fit in another way
 * although it does not fit in this one.
 */
export function placeShared(room: Room, requests: readonly Amounts[]): Placed {
  const nodes: (string | undefined)[] = [];
  let left = room;
  let search = startSearch("");
  for (const request of requests) {
    const key = amountsKey(request);
    if (search.key !== key) search = startSearch(key);
    const found = placeOne(left, request, search);
    nodes.push(found?.node);
    search = found?.search ?? { ...search, isOver: true };
    left = found?.room ?? left;
  }
  return { nodes, room: left };
}

/** How far the search for equal parts has come: what has no room for one of them has none for the next one. */
type Search = {
  readonly key: string;
  /** Where the last part was placed, among the partial nodes. */
  readonly at: PartialKey | undefined;
  /** Only nodes that have extended resources which the part does not request are left. */
  readonly isSpecial: boolean;
  /** Only partial nodes from here on may have room; undefined: all. */
  readonly partialFrom: PartialKey | undefined;
  /** The same for free nodes. */
  readonly freeFrom: string | undefined;
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
  if (search.at !== undefined && same !== undefined && fitsInto(request, same.free))
    return take(room, search.at, same, request, search);
  const plain = search.isSpecial ? undefined : placeAmong(room, request, search);
  if (plain !== undefined) return plain;
  const special = search.isSpecial ? search : { ...startSearch(search.key), isSpecial: true };
  return placeAmong(room, request, special);
}

function placeAmong(room: Room, request: Amounts, search: Search): Found | undefined {
  const { isSpecial, partialFrom, freeFrom } = search;
  for (const [at, node] of room.partial.entries(partialFrom))
    if (fitsInto(request, node.free) && hasMoreKinds(node.allocatable, request) === isSpecial)
      return take(room, at, node, request, { ...search, partialFrom: at });
  for (const [node, allocatable] of room.free.entries(freeFrom)) {
    if (allocatable === undefined || !fitsInto(request, allocatable)) continue;
    if (hasMoreKinds(allocatable, request) !== isSpecial) continue;
    const partial = { free: allocatable, allocatable, hasForeignUse: false };
    const opened = { ...room, free: room.free.delete(node) };
    return take(opened, partialKey(node, partial), partial, request, { ...search, partialFrom: END, freeFrom: node });
  }
  return undefined;
}

/** After all partial nodes. */
const END: PartialKey = { fraction: -1, node: "" };

function take(room: Room, at: PartialKey, node: PartialNode, request: Amounts, search: Search): Found {
  const after = { ...node, free: subtract(node.free, useOf(request)) };
  const next = partialKey(at.node, after);
  const partial = room.partial.delete(at).set(next, after);
  return { node: at.node, room: { ...room, partial }, search: { ...search, at: next } };
}

/** Whether the node has an extended resource, such as a GPU, that is not requested. */
function hasMoreKinds(allocatable: Amounts, request: Amounts): boolean {
  for (const [resource, amount] of allocatable)
    if (amount > 0 && resource.includes("/") && (request.get(resource) ?? 0) === 0) return true;
  return false;
}

/**
 * The room that is left for others while machines are kept for this need: where its parts fit they are kept, and for each part and each machine that is
 * missing a node is kept that becomes free first. Those are free nodes from the end of their order, because others take them from its beginning, and then the
 * least allocated ones; a whole machine is kept on no node with foreign use, because releases do not empty it.
 */
export function withoutKept(room: Room, { count, shared }: Pick<PoolNeed, "count" | "shared">): Room {
  const { nodes, room: afterParts } = placeShared(room, shared);
  let left = afterParts;
  for (let missing = count; missing > 0; missing -= 1) left = withoutLast(left, ({ hasForeignUse }) => !hasForeignUse);
  for (const node of nodes) if (node === undefined) left = withoutLast(left, () => true);
  return left;
}

function withoutLast(room: Room, mayKeep: (node: PartialNode) => boolean): Room {
  const free = room.free.last();
  if (free !== undefined) return { ...room, free: room.free.delete(free[0]) };
  const skipped: [PartialKey, PartialNode][] = [];
  let { partial } = room;
  for (let last = partial.last(); last !== undefined; last = partial.last()) {
    partial = partial.delete(last[0]);
    if (mayKeep(last[1])) break;
    skipped.push([last[0], last[1]]);
  }
  return { ...room, partial: skipped.reduce((kept, [key, node]) => kept.set(key, node), partial) };
}
