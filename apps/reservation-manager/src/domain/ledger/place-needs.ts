import type { PoolNeed } from "./reservation.ts";
import { placeShared, withoutKept, type FreeKey, type PartialKey, type PartialNode, type Room } from "./room.ts";

/** A need of a pool, and the room on the nodes that it accepts. Rooms of one pool may have nodes in common. */
export type RoomForNeed = { readonly need: Pick<PoolNeed, "count" | "shared">; readonly room: Room };

/** Nodes of the parts (undefined: none has room), and of the whole machines (fewer than needed if too few are free). */
export type PlacedNeed = { readonly parts: readonly (string | undefined)[]; readonly whole: readonly string[] };

/** Counts the parts that have a node. */
export function countPlaced(parts: PlacedNeed["parts"]): number {
  return parts.filter((node) => node !== undefined).length;
}

/** The part taken of a room: the removed keys, and the nodes that have become partial or fuller. */
type Taken = {
  readonly free: readonly FreeKey[];
  readonly partial: readonly PartialKey[];
  readonly added: readonly (readonly [PartialKey, PartialNode])[];
};

function takenOf(before: Room, after: Room): Taken {
  if (before === after) return { free: [], partial: [], added: [] };
  const free = before.free === after.free ? [] : [...before.free.keys()].filter((key) => !after.free.has(key));
  if (before.partial === after.partial) return { free, partial: [], added: [] };
  const partial = [...before.partial.entries()].filter(([key, node]) => after.partial.get(key) !== node);
  const added = [...after.partial.entries()].filter(([key, node]) => before.partial.get(key) !== node);
  return { free, partial: partial.map(([key]) => key), added };
}

/**
 * Places the needs of one pool, those with the fewest nodes first, each in the room that the earlier ones leave. Places parts as `placeShared` does, then whole
 * machines, first on nodes that no later need accepts. Optimal for whole machines of two needs; a heuristic for more needs and for parts.
 */
export function placeNeeds(rooms: readonly RoomForNeed[]): readonly PlacedNeed[] {
  const placed = new Map<RoomForNeed, PlacedNeed>();
  const taken: Taken[] = [];
  const order = [...rooms].sort((a, b) => sizeOf(a.room) - sizeOf(b.room));
  for (const [index, each] of order.entries()) {
    const before = withoutTaken(each.room, taken);
    const { nodes, room } = placeShared(before, each.need.shared);
    const whole = chooseWhole(
      room.free,
      each.need.count,
      order.slice(index + 1).map((later) => later.room),
    );
    if (index < order.length - 1)
      taken.push(takenOf(before, { ...room, free: whole.reduce((free, key) => free.delete(key), room.free) }));
    placed.set(each, { parts: nodes, whole: whole.map(({ node }) => node) });
  }
  return rooms.map((each) => placed.get(each) ?? { parts: [], whole: [] });
}

/** The rest of a room while machines are kept for these needs of the same pool (`withoutKept`). */
export function withoutKeptFor(room: Room, kept: readonly RoomForNeed[]): Room {
  const [first, ...others] = kept;
  if (first?.room === room && others.length === 0) return withoutKept(room, first.need);
  const taken: Taken[] = [];
  for (const each of kept) {
    const before = withoutTaken(each.room, taken);
    taken.push(takenOf(before, withoutKept(before, each.need)));
  }
  return withoutTaken(room, taken);
}

function sizeOf({ free, partial }: Room): number {
  return free.size + partial.size;
}

function chooseWhole(free: Room["free"], count: number, later: readonly Room[]): readonly FreeKey[] {
  if (count === 0) return [];
  if (later.length === 0) return firstOf(free.keys(), count);
  const isAccepted = (key: FreeKey): boolean => later.some((room) => room.free.has(key));
  const keys = [...free.keys()];
  return [...keys.filter((key) => !isAccepted(key)), ...keys.filter(isAccepted)].slice(0, count);
}

function firstOf<Entry>(entries: Iterator<Entry>, count: number): readonly Entry[] {
  const first: Entry[] = [];
  for (let next = entries.next(); first.length < count && next.done !== true; next = entries.next())
    first.push(next.value);
  return first;
}

/** Returns the room without the nodes taken from other rooms, because rooms of one pool may share nodes, under the same keys. */
function withoutTaken(room: Room, taken: readonly Taken[]): Room {
  if (taken.length === 0) return room;
  let { free, partial } = room;
  for (const { free: freeKeys, partial: partialKeys, added } of taken) {
    const present = new Set<string>();
    for (const key of freeKeys) {
      if (!free.has(key)) continue;
      free = free.delete(key);
      present.add(key.node);
    }
    for (const key of partialKeys) {
      if (!partial.has(key)) continue;
      partial = partial.delete(key);
      present.add(key.node);
    }
    for (const [key, node] of added) if (present.has(key.node)) partial = partial.set(key, node);
  }
  return { free, partial };
}
