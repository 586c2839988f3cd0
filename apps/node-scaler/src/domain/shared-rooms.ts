import { buildAmountsKey, canFit, subtractAmounts, sumUse, type Amounts } from "@muster/resources";
import { getDemandClass, type Acceptance } from "./acceptance.ts";
import type { Demand } from "./demand.ts";
import { compareNames, getPhaseRank, type ComputedNode, type FreeMachine, type Pool } from "./fit.ts";
import { NO_ROOM, indexRooms, type NodeRoom, type NodeRooms } from "./index-rooms.ts";
import { toAmounts, type NodeSize } from "./node-sizes.ts";
import type { NewNode } from "./node.ts";

export type RoomNode = ComputedNode | FreeMachine | NewNode;

/** Places the shared needs of one round in the order in which the ledger grants them. Each need gets the node of its pool that the ledger would choose. */
export type SharedRooms = {
  /** Takes room on a node that exists, boots, or is planned in this round, for a demand with these requests. */
  take(demand: Demand, requests: Amounts): RoomNode | undefined;
  /** Adds a node that is created for these requests, which take their part of it. */
  open(node: NewNode, requests: Amounts): void;
  /** Adds an unused new node, or a node of `reserved`. */
  offer(node: NewNode | ComputedNode): void;
  /** Closes a node that is taken as a whole, or ends. */
  close(node: RoomNode): void;
  hasRoom(node: RoomNode, requests: Amounts): boolean;
  /** Counts the changes. */
  taken(): number;
  /** Withdraws the latest changes, down to this count. */
  rewind(taken: number): void;
};

type SharedWorld = {
  readonly pools: ReadonlyMap<string, Pool>;
  /** Usable nodes without a binding to a demand for a whole node. */
  readonly nodes: readonly ComputedNode[];
  /** Nodes that are bound to demands for whole nodes: they are closed until `offer` adds them. */
  readonly reserved: readonly ComputedNode[];
  /** Other machines that can be granted as a whole, with known room. */
  readonly machines: readonly FreeMachine[];
  /** Machines and nodes that can be granted only in parts. */
  readonly parts: readonly FreeMachine[];
  /** The resources that are requested in this round. */
  readonly resources: ReadonlySet<string>;
  readonly acceptance: Acceptance;
};

type Place = { readonly rooms: NodeRooms; readonly place: number };

/**
 * Opens the rooms of a round. Existing nodes come first, by name, then booting ones, the oldest first, then new ones. The order decides only between equally
 * allocated nodes of one size. The ledger sees no difference once all of them exist, so another order would plan too many or too few nodes.
 */
export function openSharedRooms(world: SharedWorld): SharedRooms {
  const { pools, resources, acceptance } = world;
  const byPool = new Map<string, { readonly rooms: NodeRooms; readonly nodes: RoomNode[] }>();
  const places = new Map<RoomNode, Place>();
  const undo: (() => void)[] = [];
  const add = (pool: string, node: RoomNode, room: NodeRoom): Place => {
    const of = byPool.get(pool) ?? { rooms: indexRooms(), nodes: [] };
    byPool.set(pool, of);
    const place = { rooms: of.rooms, place: of.nodes.length };
    of.nodes.push(node);
    of.rooms.set(place.place, room);
    of.rooms.refuse(place.place, acceptance.refusedBy(node));
    places.set(node, place);
    return place;
  };
  const change = ({ rooms, place }: Place, room: NodeRoom): void => {
    const before = rooms.at(place) ?? NO_ROOM;
    rooms.set(place, room);
    undo.push(() => rooms.set(place, before));
  };
  const newRoom = ({ spec }: NewNode): NodeRoom =>
    unusedRoom(pools.get(spec.pool)?.sizes.get(spec.instanceType), resources);
  const isReserved = new Set<RoomNode>(world.reserved);
  const reserved = new Map<RoomNode, NodeRoom>();
  for (const { node, room } of existingRooms(world)) {
    if (isReserved.has(node)) reserved.set(node, room);
    add("spec" in node ? node.spec.pool : node.pool, node, isReserved.has(node) ? NO_ROOM : room);
  }
  return {
    take: (demand, requests) => {
      const of = byPool.get(demand.pool);
      const place = of?.rooms.find(requests, getDemandClass(demand));
      const room = place === undefined ? undefined : of?.rooms.at(place);
      if (of === undefined || place === undefined || room === undefined) return undefined;
      change({ rooms: of.rooms, place }, subtractRequest(room, requests));
      return of.nodes[place];
    },
    open: (node, requests) => {
      change(places.get(node) ?? add(node.spec.pool, node, NO_ROOM), subtractRequest(newRoom(node), requests));
    },
    offer: (node) => {
      const room = "status" in node ? reserved.get(node) : newRoom(node);
      if (room !== undefined) change(places.get(node) ?? add(node.spec.pool, node, NO_ROOM), room);
    },
    close: (node) => {
      const place = places.get(node);
      if (place !== undefined) change(place, NO_ROOM);
    },
    hasRoom: (node, requests) => {
      const place = places.get(node);
      return canFit(requests, place?.rooms.at(place.place)?.free ?? new Map());
    },
    taken: () => undo.length,
    rewind: (taken) => {
      while (undo.length > taken) undo.pop()?.();
    },
  };
}

/** The rooms for a round without a waiting shared need. */
export const NO_ROOMS: SharedRooms = {
  take: () => undefined,
  open: () => undefined,
  offer: () => undefined,
  close: () => undefined,
  hasRoom: () => false,
  taken: () => 0,
  rewind: () => undefined,
};

type ExistingRoom = { readonly node: ComputedNode | FreeMachine; readonly room: NodeRoom; readonly sinceMs: number };

function existingRooms({ pools, nodes, reserved, machines, parts, resources }: SharedWorld): readonly ExistingRoom[] {
  const ofMachine = (node: FreeMachine, isUnused: boolean): readonly ExistingRoom[] =>
    node.room === undefined ? [] : [{ node, room: { ...node.room, isUnused }, sinceMs: 0 }];
  return [
    ...parts.flatMap((node) => ofMachine(node, false)),
    ...machines.flatMap((node) => ofMachine(node, true)),
    ...[...nodes, ...reserved].flatMap((node) => {
      const room = computeRoom(node, pools.get(node.spec.pool), resources);
      return room === undefined
        ? []
        : [{ node, room, sinceMs: getPhaseRank(node) === 0 ? 0 : node.status.createdAtMs }];
    }),
  ].sort(
    (one, other) =>
      one.sinceMs - other.sinceMs ||
      compareNames(buildAmountsKey(other.room.allocatable), buildAmountsKey(one.room.allocatable)) ||
      compareNames(getKubeName(one.node), getKubeName(other.node)),
  );
}

/** The room that the ledger reports for a node, or the expected room of a node of its type until the ledger knows it. */
function computeRoom(node: ComputedNode, pool: Pool | undefined, resources: ReadonlySet<string>): NodeRoom | undefined {
  if (node.room !== undefined) return { ...node.room, isUnused: true };
  return pool && unusedRoom(pool.sizes.get(node.spec.instanceType), resources);
}

const UNKNOWN_SIZE: NodeSize = { known: new Map(), gpus: undefined, isInPart: true };

function unusedRoom(size: NodeSize = UNKNOWN_SIZE, resources: ReadonlySet<string>): NodeRoom {
  const { known, gpus } = size;
  const allocatable = toAmounts(size, known.keys());
  return { allocatable, free: toAmounts(size, resources), isUnused: true, ...(gpus !== undefined && { gpus }) };
}

/** Subtracts a request; a request with an unknown amount takes the whole resource. */
function subtractRequest({ free, ...room }: NodeRoom, requests: Amounts): NodeRoom {
  const use = sumUse(requests);
  const left = new Map(subtractAmounts(free, use));
  for (const [resource, amount] of use) if (amount > 0 && left.get(resource) === Infinity) left.set(resource, 0);
  return { ...room, free: left, isUnused: false };
}

/** Returns the name by which the ledger breaks ties. */
function getKubeName(node: ComputedNode | FreeMachine): string {
  return "status" in node ? (node.status.kubernetesNode ?? node.name) : (node.kubernetesNode ?? node.name);
}
