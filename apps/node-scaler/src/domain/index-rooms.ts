import { computeAllocatedFraction, sumUse, type Amounts } from "@muster/resources";

/** The room of one node for shared needs. */
export type NodeRoom = {
  /** The allocatable amounts without the overhead. */
  readonly allocatable: Amounts;
  readonly free: Amounts;
  /** The number of GPUs of an unknown kind. Absent if `allocatable` has them. */
  readonly gpus?: number;
  /** True if no part of the node is granted. Absent if the node can be granted only in parts. */
  readonly isUnused?: boolean;
};

/** The room of a node that is taken as a whole: none. */
export const NO_ROOM: NodeRoom = { allocatable: new Map(), free: new Map() };

export type NodeRooms = {
  /**
   * Returns the position of the room in which the ledger places the requests, among rooms that fit them (`canFit`). It is the most allocated partially used
   * room, or else an unused one. Ties go to the smallest by cpu, then memory, and then to the first position. Nodes with unrequested extended resources come
   * last. Rooms that refuse the demands of this class are omitted.
   */
  find(requests: Amounts, demandClass?: string): number | undefined;
  /** Returns the room at a position. */
  at(place: number): NodeRoom | undefined;
  /** Sets a room; the position after the last one adds a room. */
  set(place: number, room: NodeRoom): void;
  /** Excludes the room for demands of these classes. */
  refuse(place: number, demandClasses: readonly string[]): void;
};

/** The amounts that decide the order of rooms, ascending, by position. */
type Order = {
  /** Sorts rooms in use by allocation, from -1 for a full one to 0; an unused room has 1. */
  readonly rank: Float64Array;
  readonly cpu: Float64Array;
  readonly memory: Float64Array;
};

/**
 * Keeps the free amounts of each resource in a column, so that a request is compared with all rooms quickly. A tree ordered by one amount would not help: most
 * rooms may have enough of one resource and too little of another.
 */
export function indexRooms(): NodeRooms {
  const rooms: NodeRoom[] = [];
  let order: Order = { rank: newColumn(FIRST_LENGTH), cpu: newColumn(FIRST_LENGTH), memory: newColumn(FIRST_LENGTH) };
  const columns = new Map<string, Float64Array>();
  /** Maps an extended resource to a column that contains 1 if the node has some of it. */
  const extended = new Map<string, Float64Array>();
  /** Maps a class of demands to a column that contains 1 if the room excludes them. */
  const refused = new Map<string, Float64Array>();
  const grow = (): void => {
    order = { rank: doubled(order.rank), cpu: doubled(order.cpu), memory: doubled(order.memory) };
    for (const table of [columns, extended, refused])
      for (const [resource, column] of table) table.set(resource, doubled(column));
  };
  return {
    find: (requests, demandClass = "") => {
      const needed = [...sumUse(requests)].filter(([, amount]) => amount > 0);
      const limits = needed.flatMap(([resource, amount]) => {
        const column = columns.get(resource);
        return column === undefined ? [] : [{ column, amount }];
      });
      if (limits.length < needed.length) return undefined;
      const others = [...extended].flatMap(([resource, column]) => (isRequested(requests, resource) ? [] : [column]));
      const refusal = refused.get(demandClass);
      const closed = refusal === undefined ? [] : [refusal];
      const plain = findWithin(rooms.length, order, limits, [...others, ...closed]);
      return plain ?? (others.length === 0 ? undefined : findWithin(rooms.length, order, limits, closed));
    },
    at: (place) => rooms[place],
    set: (place, room) => {
      if (place >= order.rank.length) grow();
      rooms[place] = room;
      setOrder(order, place, room);
      setColumns(columns, place, room.free, order.rank.length);
      setColumns(extended, place, listExtendedAmounts(room), order.rank.length);
    },
    refuse: (place, demandClasses) => {
      for (const name of demandClasses) {
        const column = refused.get(name) ?? newColumn(order.rank.length);
        refused.set(name, column);
        column[place] = 1;
      }
    },
  };
}

const FIRST_LENGTH = 64;

function newColumn(length: number): Float64Array<ArrayBuffer> {
  return new Float64Array(length);
}

function doubled(column: Float64Array): Float64Array<ArrayBuffer> {
  const longer = newColumn(column.length * 2);
  longer.set(column);
  return longer;
}

function setOrder({ rank, cpu, memory }: Order, place: number, { free, allocatable, isUnused }: NodeRoom): void {
  rank[place] = isUnused === true ? 1 : -computeAllocatedFraction(free, allocatable);
  cpu[place] = allocatable.get("cpu") ?? free.get("cpu") ?? 0;
  memory[place] = allocatable.get("memory") ?? free.get("memory") ?? 0;
}

function setColumns(columns: Map<string, Float64Array>, place: number, amounts: Amounts, length: number): void {
  for (const resource of amounts.keys()) if (!columns.has(resource)) columns.set(resource, newColumn(length));
  for (const [resource, column] of columns) column[place] = amounts.get(resource) ?? 0;
}

/** The resource that stands for GPUs of an unknown kind. */
const ANY_GPU = "*/gpu";

/** Returns resources such as GPUs, for which nodes are kept free. */
function listExtendedAmounts({ allocatable, gpus = 0 }: NodeRoom): Amounts {
  const kinds = [...allocatable].flatMap(([resource, amount]) =>
    amount > 0 && resource.includes("/") ? [resource] : [],
  );
  if (gpus > 0) kinds.push(ANY_GPU);
  return new Map(kinds.map((resource) => [resource, 1]));
}

function isRequested(requests: Amounts, resource: string): boolean {
  if (resource !== ANY_GPU) return (requests.get(resource) ?? 0) > 0;
  return [...requests].some(([requested, amount]) => amount > 0 && requested.endsWith("/gpu"));
}

type Limit = { readonly column: Float64Array; readonly amount: number };

/** Finds a room. The loops are optimised, because every need tests every node. Rooms with an entry in `others` are omitted. */
function findWithin(
  count: number,
  { rank, cpu, memory }: Order,
  limits: readonly Limit[],
  others: readonly Float64Array[],
): number | undefined {
  let best = -1;
  const columns = limits.map(({ column }) => column);
  const amounts = Float64Array.from(limits, ({ amount }) => amount);
  const isBefore = (place: number): boolean => {
    for (const column of [rank, cpu, memory]) {
      const [own, least] = [column[place] ?? 0, column[best] ?? 0];
      if (own !== least) return own < least;
    }
    return false;
  };
  for (let place = 0; place < count; place += 1) {
    if (best >= 0 && !isBefore(place)) continue;
    let fits = true;
    for (let at = 0; at < amounts.length && fits; at += 1) fits = (columns[at]?.[place] ?? 0) >= (amounts[at] ?? 0);
    for (let at = 0; at < others.length && fits; at += 1) fits = others[at]?.[place] === 0;
    if (fits) best = place;
  }
  return best < 0 ? undefined : best;
}
