import { amountsKey, compareLargestFirst } from "@muster/resources";
import { sizeOf, type Machine, type Need, type PoolNeed } from "../ledger/reservation.ts";
import { limitOf, type Ledger } from "../ledger/ledger.ts";
import { canHold, type Machines } from "../ledger/machines.ts";
import { emptyRoom, placeShared, withoutKept, type Room } from "../ledger/room.ts";
import { compareText } from "../ledger/sorted-map.ts";
import { comparePlaces, firstPlaceOf, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";

export type HoldPolicy = {
  /** How long a request may be overtaken before machines are kept for it. */
  readonly holdAfterMs: number;
};

/** Machines that are kept for one request that has waited too long: requests behind it do not get them. */
export type Hold = { readonly place: Place; readonly needs: readonly PoolNeed[] };

/** What a grant depends on besides the place in the queue. */
type Demand = Pick<WaitingClass, "ownerKind" | "needs">;

/**
 * POOL_AVAILABILITY: too few are free. HELD_FOR_OLDER: enough are free, and kept for an older request. POOLS_NOT_KNOWN_YET: what is known of the nodes is not
 * all or not current, so what looks free may be gone. CONCURRENCY_LIMIT: as many as the owner's kind may have are granted.
 */
export type WaitCode = "CONCURRENCY_LIMIT" | "POOL_AVAILABILITY" | "HELD_FOR_OLDER" | "POOLS_NOT_KNOWN_YET";

/** Why a request cannot be granted now. */
export type Obstacle =
  | { readonly code: Extract<WaitCode, "CONCURRENCY_LIMIT">; readonly limit: number }
  | {
      readonly code: Exclude<WaitCode, "CONCURRENCY_LIMIT">;
      readonly pool: string;
      readonly requested: number;
      /** How many of `requested` are parts of machines. */
      readonly parts: number;
      readonly available: number;
    };

/** The first thing that stands in the way, pools in the order of their names; undefined when the demand can be granted at this place now. */
export function obstacleTo(demand: Demand, place: Place, world: World, hold: Hold | undefined): Obstacle | undefined {
  if (isAtLimit(demand, world)) return { code: "CONCURRENCY_LIMIT", limit: limitOf(world.ledger, demand.ownerKind) };
  const ahead = aheadOf(place, hold);
  for (const need of demand.needs) {
    const { available, fits } = countAvailable(need, world.machines, ahead);
    if (fits && world.machines.complete) continue;
    const [requested, parts] = [sizeOf(need), need.shared.length];
    return { code: shortageOf(need, world.machines), pool: need.pool, requested, parts, available };
  }
  return undefined;
}

function shortageOf(need: PoolNeed, { pools, complete }: Machines): Exclude<WaitCode, "CONCURRENCY_LIMIT"> {
  if (!complete) return "POOLS_NOT_KNOWN_YET";
  return countAvailable(need, { pools }, undefined).fits ? "HELD_FOR_OLDER" : "POOL_AVAILABILITY";
}

/**
 * Whether the need fits behind the hold, if there is one. `available`: of whole machines alone all that are free, and otherwise how many machines and parts of
 * the need fit now.
 */
function countAvailable(need: PoolNeed, machines: Pick<Machines, "pools">, hold: Hold | undefined): Fit {
  const { pool, count } = need;
  const kept = keptOf(pool, hold);
  if (isWhole(need) && (kept === undefined || isWhole(kept))) {
    const available = Math.max(0, (machines.pools.get(pool)?.free.size ?? 0) - (kept?.count ?? 0));
    return { available, fits: count <= available };
  }
  return placeAll(roomBehind(need, machines, hold), need);
}

type Fit = { readonly available: number; readonly fits: boolean };

/** What was placed in a room: most rooms stay as they are from one decision to the next, and the same shapes wait. */
const fitsByRoom = new WeakMap<Room, Map<string, Fit>>();
const MAX_FITS = 10_000;

function placeAll(room: Room, { count, shared }: PoolNeed): Fit {
  const key = `${count} ${shared.map(amountsKey).join("")}`;
  const known = fitsByRoom.get(room) ?? new Map<string, Fit>();
  fitsByRoom.set(room, known);
  const same = known.get(key);
  if (same !== undefined) return same;
  const { nodes, room: left } = placeShared(room, shared);
  const parts = nodes.filter((node) => node !== undefined).length;
  const free = left.free.size;
  const available = shared.length === 0 ? free : parts + Math.min(count, free);
  const fit = { available, fits: parts === shared.length && count <= free };
  if (known.size < MAX_FITS) known.set(key, fit);
  return fit;
}

/** Whether needs fit that stand behind the hold. */
export function fitBehind(needs: readonly PoolNeed[], machines: Machines, hold: Hold | undefined): boolean {
  return needs.every((need) => countAvailable(need, machines, hold).fits);
}

function isWhole({ shared }: PoolNeed): boolean {
  return shared.length === 0;
}

function keptOf(pool: string, hold: Hold | undefined): PoolNeed | undefined {
  return hold?.needs.find((need) => need.pool === pool);
}

/**
 * The hold that is in force: of the requests that have waited longer than the bound, the oldest one of the highest priority. Requests that no free machine
 * can help are skipped: those that their concurrency limit stops, and those that are larger than their pool is at present and can become now.
 */
export function findHold(world: World, { holdAfterMs }: HoldPolicy, nowMs: number): Hold | undefined {
  const { heads } = world.ledger.queue;
  for (let head = heads.first(); head !== undefined;) {
    const [place, waiting] = head;
    if (nowMs - place.createdAtMs <= holdAfterMs) {
      // The head is the oldest of its priority or comes after it, so nothing of this priority has waited longer.
      head = heads.first(firstPlaceOf(place.priority - 1));
    } else {
      if (!isAtLimit(waiting, world) && isPossible(waiting, world.machines)) return { place, needs: waiting.needs };
      head = heads.first({ ...place, sequence: place.sequence + 1 });
    }
  }
  return undefined;
}

/**
 * A node of its pool for each need: parts are placed first (`placeShared`), and whole machines are the first free ones then (`FreeKey`). Only for needs that
 * nothing stands in the way of.
 */
export function assignMachines(
  needs: readonly Need[],
  place: Place,
  machines: Machines,
  hold: Hold | undefined,
): readonly Machine[] {
  const ahead = aheadOf(place, hold);
  const nodes = new Map<Need, string>();
  for (const pool of new Set(needs.map((need) => need.pool))) {
    const ofPool = needs.filter((need) => need.pool === pool);
    const parts = ofPool.flatMap((need) => (need.shared === undefined ? [] : [{ need, requests: need.shared }]));
    parts.sort(
      (a, b) => compareLargestFirst(a.requests, b.requests) || compareText(a.need.component, b.need.component),
    );
    const requests = parts.map((part) => part.requests);
    const placed = placeShared(roomBehind({ pool }, machines, ahead), requests);
    for (const [index, { need }] of parts.entries()) setNode(nodes, need, placed.nodes[index]);
    const free = placed.room.free.keys();
    for (const need of ofPool)
      if (need.shared === undefined) {
        const next = free.next();
        setNode(nodes, need, next.done === true ? undefined : next.value.node);
      }
  }
  return needs.map((need) => ({ ...need, node: nodes.get(need) ?? "" }));
}

function setNode(nodes: Map<Need, string>, need: Need, node: string | undefined): void {
  if (node === undefined) throw new Error(`pool ${need.pool} has no room for ${need.component}`);
  nodes.set(need, node);
}

/** The hold, for requests that stand behind it. */
function aheadOf(place: Place, hold: Hold | undefined): Hold | undefined {
  return hold !== undefined && comparePlaces(place, hold.place) > 0 ? hold : undefined;
}

/** What the hold leaves of the pool of the need. */
export function roomBehind(
  { pool }: Pick<PoolNeed, "pool">,
  machines: Pick<Machines, "pools">,
  hold: Hold | undefined,
): Room {
  const room = machines.pools.get(pool) ?? emptyRoom;
  const kept = keptOf(pool, hold);
  if (kept === undefined) return room;
  const known = roomsBehind.get(room) ?? new WeakMap<PoolNeed, Room>();
  roomsBehind.set(room, known);
  const behind = known.get(kept) ?? withoutKept(room, kept);
  known.set(kept, behind);
  return behind;
}

/** By room, what the need of a hold leaves of it. */
const roomsBehind = new WeakMap<Room, WeakMap<PoolNeed, Room>>();

/** How many more reservations of the kind its concurrency limit lets be granted. */
export function roomFor(ownerKind: string, ledger: Ledger): number {
  const limit = limitOf(ledger, ownerKind);
  if (limit === 0) return Number.POSITIVE_INFINITY;
  return Math.max(0, limit - (ledger.grantedByKind.get(ownerKind) ?? 0));
}

function isAtLimit({ ownerKind }: Demand, { ledger }: World): boolean {
  return roomFor(ownerKind, ledger) === 0;
}

function isPossible({ needs }: Demand, machines: Machines): boolean {
  return needs.every((need) => {
    const state = machines.pools.get(need.pool);
    return state !== undefined && canHold(state, need);
  });
}
