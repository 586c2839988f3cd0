import { allocatedFraction, fitsInto, type Amounts } from "@muster/resources";

/** What shared needs can get of one node. */
export type Room = {
  /** Less the overhead. */
  readonly allocatable: Amounts;
  readonly free: Amounts;
};

/** A node that is taken as a whole. */
export const CLOSED: Room = { allocatable: new Map(), free: new Map() };

/** The rooms of nodes, where the most allocated one that is large enough is found without asking of each. */
export type Rooms = {
  /** Place of the most allocated room that fits the requests; of equally allocated ones the first place. */
  find(requests: Amounts): number | undefined;
  /** Of a place that is set. */
  at(place: number): Room | undefined;
  /** The place after the last one is a new one. */
  set(place: number, room: Room): void;
};

/** Of a subtree: no room in it has more free of a resource, or is allocated to a larger fraction. */
type Bound = { readonly free: Amounts; readonly fraction: number };

/**
 * A tree of bounds. A subtree is searched only where the requests fit its bound and it can have a room that is better than the best one so far, the more
 * promising half first.
 */
export function indexRooms(): Rooms {
  const rooms: Room[] = [];
  const levels: Bound[][] = [[]];
  const boundAt = (level: number, place: number): Bound | undefined => levels[level]?.[place];
  return {
    find: (requests) => {
      let best: { readonly place: number; readonly fraction: number } | undefined;
      const search = (level: number, place: number): void => {
        const bound = boundAt(level, place);
        if (bound === undefined || !fitsInto(requests, bound.free)) return;
        const first = place * 2 ** level;
        const isWorse =
          best !== undefined &&
          (bound.fraction < best.fraction || (bound.fraction === best.fraction && first > best.place));
        if (isWorse) return;
        if (level === 0) {
          best = { place, fraction: bound.fraction };
          return;
        }
        const [left, right] = [place * 2, place * 2 + 1];
        const isRightFirst = (boundAt(level - 1, right)?.fraction ?? -1) > (boundAt(level - 1, left)?.fraction ?? -1);
        for (const half of isRightFirst ? [right, left] : [left, right]) search(level - 1, half);
      };
      search(levels.length - 1, 0);
      return best?.place;
    },
    at: (place) => rooms[place],
    set: (place, room) => {
      rooms[place] = room;
      let at = place;
      let bound: Bound = { free: room.free, fraction: allocatedFraction(room.free, room.allocatable) };
      for (let level = 0; ; level += 1) {
        const bounds = (levels[level] ??= []);
        bounds[at] = bound;
        if (level === levels.length - 1 && bounds.length === 1) return;
        const other = bounds[at % 2 === 0 ? at + 1 : at - 1];
        if (other !== undefined) bound = larger(bound, other);
        at = Math.floor(at / 2);
      }
    },
  };
}

function larger(one: Bound, other: Bound): Bound {
  const free = new Map(one.free);
  for (const [resource, amount] of other.free) free.set(resource, Math.max(amount, free.get(resource) ?? 0));
  return { free, fraction: Math.max(one.fraction, other.fraction) };
}
