import { fitsInto, subtract, useOf, type Amounts } from "@muster/resources";
import { compareNames, phaseRank, type ComputedNode, type FreeMachine, type Pool } from "./fit.ts";
import { CLOSED, indexRooms, type Room, type Rooms } from "./index-rooms.ts";
import { amountsOf, type NodeSize } from "./node-sizes.ts";
import type { NewNode } from "./node.ts";

export type RoomNode = ComputedNode | FreeMachine | NewNode;

/** Where the shared needs of one round go, in the order in which the ledger grants: each to the most allocated node of its pool that has room. */
export type SharedRooms = {
  /** Takes room of a node that exists, starts, or is planned in this round. */
  take(pool: string, requests: Amounts): RoomNode | undefined;
  /** Adds a node that is made for these requests, which take their part of it. */
  open(node: NewNode, requests: Amounts): void;
  /** The node is taken as a whole, or ends. */
  close(node: RoomNode): void;
  hasRoom(node: RoomNode, requests: Amounts): boolean;
  /** How many changes were made. */
  taken(): number;
  /** Withdraws the latest changes, down to this many. */
  rewind(taken: number): void;
};

type SharedWorld = {
  readonly pools: ReadonlyMap<string, Pool>;
  /** Usable nodes that are bound to no demand for a whole node. */
  readonly nodes: readonly ComputedNode[];
  /** Other machines with known room. */
  readonly machines: readonly FreeMachine[];
  /** That are requested in this round. */
  readonly resources: ReadonlySet<string>;
};

type Place = { readonly rooms: Rooms; readonly place: number };

/**
 * Existing nodes come first, by name, then those that start, the oldest first, then new ones. That decides between equally allocated nodes only: the ledger
 * sees no difference once all of them exist, so that another order would plan more nodes or fewer than it needs.
 */
export function openSharedRooms({ pools, nodes, machines, resources }: SharedWorld): SharedRooms {
  const byPool = new Map<string, { readonly rooms: Rooms; readonly nodes: RoomNode[] }>();
  const places = new Map<RoomNode, Place>();
  const undo: (() => void)[] = [];
  const add = (pool: string, node: RoomNode, room: Room): Place => {
    const of = byPool.get(pool) ?? { rooms: indexRooms(), nodes: [] };
    byPool.set(pool, of);
    const place = { rooms: of.rooms, place: of.nodes.length };
    of.nodes.push(node);
    of.rooms.set(place.place, room);
    places.set(node, place);
    return place;
  };
  const change = ({ rooms, place }: Place, room: Room): void => {
    const before = rooms.at(place) ?? CLOSED;
    rooms.set(place, room);
    undo.push(() => rooms.set(place, before));
  };
  const existing = [
    ...machines.flatMap((node) => (node.room === undefined ? [] : [{ node, room: node.room, sinceMs: 0 }])),
    ...nodes.flatMap((node) => {
      const room = roomOf(node, pools.get(node.spec.pool), resources);
      return room === undefined ? [] : [{ node, room, sinceMs: phaseRank(node) === 0 ? 0 : node.status.createdAtMs }];
    }),
  ].sort((one, other) => one.sinceMs - other.sinceMs || compareNames(kubeNameOf(one.node), kubeNameOf(other.node)));
  for (const { node, room } of existing) add("spec" in node ? node.spec.pool : node.pool, node, room);
  return {
    take: (pool, requests) => {
      const of = byPool.get(pool);
      const place = of?.rooms.find(requests);
      const room = place === undefined ? undefined : of?.rooms.at(place);
      if (of === undefined || place === undefined || room === undefined) return undefined;
      change({ rooms: of.rooms, place }, { ...room, free: takeFrom(room.free, requests) });
      return of.nodes[place];
    },
    open: (node, requests) => {
      const { pool, instanceType } = node.spec;
      const room = emptyRoom(pools.get(pool)?.sizes.get(instanceType), resources);
      const place = add(pool, node, CLOSED);
      change(place, { ...room, free: takeFrom(room.free, requests) });
    },
    close: (node) => {
      const place = places.get(node);
      if (place !== undefined) change(place, CLOSED);
    },
    hasRoom: (node, requests) => {
      const place = places.get(node);
      return fitsInto(requests, place?.rooms.at(place.place)?.free ?? new Map());
    },
    taken: () => undo.length,
    rewind: (taken) => {
      while (undo.length > taken) undo.pop()?.();
    },
  };
}

/** No shared need waits. */
export const NO_ROOMS: SharedRooms = {
  take: () => undefined,
  open: () => undefined,
  close: () => undefined,
  hasRoom: () => false,
  taken: () => 0,
  rewind: () => undefined,
};

/** What the ledger says of a node, or what a node of its type is expected to hold as long as the ledger does not know it. */
function roomOf(node: ComputedNode, pool: Pool | undefined, resources: ReadonlySet<string>): Room | undefined {
  if (pool === undefined || node.room !== undefined) return node.room;
  return emptyRoom(pool.sizes.get(node.spec.instanceType), resources);
}

const UNKNOWN_SIZE: NodeSize = { known: new Map(), gpus: undefined, isInPart: true };

function emptyRoom(size: NodeSize = UNKNOWN_SIZE, resources: ReadonlySet<string>): Room {
  return { allocatable: size.known, free: amountsOf(size, resources) };
}

/** A request of an unknown amount takes all of it. */
function takeFrom(free: Amounts, requests: Amounts): Amounts {
  const use = useOf(requests);
  const left = new Map(subtract(free, use));
  for (const [resource, amount] of use) if (amount > 0 && left.get(resource) === Infinity) left.set(resource, 0);
  return left;
}

/** By which the ledger breaks ties. */
function kubeNameOf(node: ComputedNode | FreeMachine): string {
  return "status" in node ? (node.status.kubernetesNode ?? node.name) : node.name;
}
