import { allocatedFraction, useOf, type Amounts } from "@muster/resources";

/** What shared needs can get of one node. */
export type Room = {
  /** Less the overhead. */
  readonly allocatable: Amounts;
  readonly free: Amounts;
};

/** A node that is taken as a whole. */
export const CLOSED: Room = { allocatable: new Map(), free: new Map() };

/** The rooms of nodes. */
export type Rooms = {
  /** Place of the most allocated room that fits the requests, as `fitsInto` says; of equally allocated ones the first place. */
  find(requests: Amounts): number | undefined;
  /** Of a place that is set. */
  at(place: number): Room | undefined;
  /** The place after the last one is a new one. */
  set(place: number, room: Room): void;
};

/**
 * Keeps the free amounts of each resource in a column, so that a request is compared with all rooms quickly. A tree that is ordered by one amount would not
 * help: most rooms may have enough of one resource and too little of another.
 */
export function indexRooms(): Rooms {
  const rooms: Room[] = [];
  let fractions = new Float64Array(FIRST_LENGTH);
  const columns = new Map<string, Float64Array>();
  const grow = (): void => {
    fractions = doubled(fractions);
    for (const [resource, column] of columns) columns.set(resource, doubled(column));
  };
  return {
    find: (requests) => {
      const needed = [...useOf(requests)].filter(([, amount]) => amount > 0);
      const limits = needed.flatMap(([resource, amount]) => {
        const column = columns.get(resource);
        return column === undefined ? [] : [{ column, amount }];
      });
      return limits.length < needed.length ? undefined : findWithin(rooms.length, fractions, limits);
    },
    at: (place) => rooms[place],
    set: (place, room) => {
      if (place >= fractions.length) grow();
      rooms[place] = room;
      fractions[place] = allocatedFraction(room.free, room.allocatable);
      for (const resource of room.free.keys())
        if (!columns.has(resource)) columns.set(resource, new Float64Array(fractions.length));
      for (const [resource, column] of columns) column[place] = room.free.get(resource) ?? 0;
    },
  };
}

const FIRST_LENGTH = 64;

function doubled(column: Float64Array): Float64Array<ArrayBuffer> {
  const longer = new Float64Array(column.length * 2);
  longer.set(column);
  return longer;
}

type Limit = { readonly column: Float64Array; readonly amount: number };

/** Every need asks of every node: the loops are written for that. */
function findWithin(count: number, fractions: Float64Array, limits: readonly Limit[]): number | undefined {
  let best = -1;
  let highest = -1;
  const columns = limits.map(({ column }) => column);
  const amounts = Float64Array.from(limits, ({ amount }) => amount);
  for (let place = 0; place < count; place += 1) {
    const fraction = fractions[place] ?? 0;
    if (fraction <= highest) continue;
    let isLarge = true;
    for (let at = 0; at < amounts.length && isLarge; at += 1)
      isLarge = (columns[at]?.[place] ?? 0) >= (amounts[at] ?? 0);
    if (!isLarge) continue;
    best = place;
    highest = fraction;
  }
  return best < 0 ? undefined : best;
}
