import { amountsKey, compareLargestFirst, describeNodeSelection } from "@muster/resources";
import { countByPool, sizeOf, viewKey, type Machine, type Need, type PoolNeed } from "../ledger/reservation.ts";
import { limitOf, type Ledger } from "../ledger/ledger.ts";
import { canHold, canHoldTogether } from "../ledger/can-hold.ts";
import { viewOf, type Machines, type PoolState } from "../ledger/machines.ts";
import { countPlaced, placeNeeds, withoutKeptFor, type PlacedNeed } from "../ledger/place-needs.ts";
import { emptyRoom, placeShared, type Room } from "../ledger/room.ts";
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
      /** The nodes that count, in words; absent: each node of the pool without taints. */
      readonly nodes?: string;
    };

/** The first thing that stands in the way, pools in the order of their names; undefined when the demand can be granted at this place now. */
export function obstacleTo(demand: Demand, place: Place, world: World, hold: Hold | undefined): Obstacle | undefined {
  if (isAtLimit(demand, world)) return { code: "CONCURRENCY_LIMIT", limit: limitOf(world.ledger, demand.ownerKind) };
  const ahead = aheadOf(place, hold);
  for (const need of demand.needs) {
    const { available, fits } = countAvailable(need, demand.needs, world.machines, ahead);
    if (fits && world.machines.complete) continue;
    const [requested, parts] = [sizeOf(need), need.shared.length];
    const code = shortageOf(need, demand.needs, world.machines);
    const nodes = need.selection && describeNodeSelection(need.selection);
    return { code, pool: need.pool, requested, parts, available, ...(nodes !== undefined && { nodes }) };
  }
  return undefined;
}

function shortageOf(
  need: PoolNeed,
  needs: readonly PoolNeed[],
  machines: Machines,
): Exclude<WaitCode, "CONCURRENCY_LIMIT"> {
  if (!machines.complete) return "POOLS_NOT_KNOWN_YET";
  return countAvailable(need, needs, machines, undefined).fits ? "HELD_FOR_OLDER" : "POOL_AVAILABILITY";
}

/**
 * Whether the need fits behind the hold, if there is one, beside the others of its demand. `available`: of whole machines alone all that are free; otherwise
 * how many machines and parts of the need fit now.
 */
function countAvailable(need: PoolNeed, needs: readonly PoolNeed[], machines: Machines, hold: Hold | undefined): Fit {
  const { pool, count } = need;
  if (hasOthersOf(need, needs)) {
    const ofPool = needsOf(pool, needs);
    return fitOf(need, placeInPool(ofPool, machines, hold)[ofPool.indexOf(need)]);
  }
  const kept = isPlain(need) ? countKept(pool, hold) : undefined;
  if (kept === undefined) return placeAll(roomBehind(need, machines, hold), need);
  const available = Math.max(0, (machines.pools.get(pool)?.free.size ?? 0) - kept);
  return { available, fits: count <= available };
}

/** Whether other needs are of the same pool, with another selection. */
function hasOthersOf(need: PoolNeed, needs: readonly PoolNeed[]): boolean {
  return needs.length > 1 && needs.some((other) => other !== need && other.pool === need.pool);
}

function needsOf(pool: string, needs: readonly PoolNeed[]): readonly PoolNeed[] {
  return needs.filter((need) => need.pool === pool);
}

/** Whether counting is enough: the need has whole machines only, of the whole pool. */
function isPlain({ shared, selection }: PoolNeed): boolean {
  return shared.length === 0 && selection === undefined;
}

/** How many whole machines the hold keeps; undefined: counting is not enough to know. */
function countKept(pool: string, hold: Hold | undefined): number | undefined {
  let kept = 0;
  for (const need of hold?.needs ?? []) {
    if (need.pool !== pool) continue;
    if (!isPlain(need)) return undefined;
    kept += need.count;
  }
  return kept;
}

function placeInPool(needs: readonly PoolNeed[], machines: Machines, hold: Hold | undefined): readonly PlacedNeed[] {
  return placeNeeds(needs.map((need) => ({ need, room: roomBehind(need, machines, hold) })));
}

function fitOf({ count, shared }: PoolNeed, { parts, whole }: PlacedNeed = { parts: [], whole: [] }): Fit {
  const placed = countPlaced(parts);
  return { available: placed + whole.length, fits: placed === shared.length && whole.length === count };
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
  const parts = countPlaced(nodes);
  const free = left.free.size;
  const available = shared.length === 0 ? free : parts + Math.min(count, free);
  const fit = { available, fits: parts === shared.length && count <= free };
  if (known.size < MAX_FITS) known.set(key, fit);
  return fit;
}

/** Whether needs fit that stand behind the hold. */
export function fitBehind(needs: readonly PoolNeed[], machines: Machines, hold: Hold | undefined): boolean {
  return needs.every((need) => countAvailable(need, needs, machines, hold).fits);
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
  const counted = countByPool(needs);
  for (const pool of new Set(needs.map((need) => need.pool))) {
    const ofPool = needsOf(pool, counted);
    const placed = placeInPool(ofPool, machines, ahead);
    for (const [index, poolNeed] of ofPool.entries()) {
      const key = viewKey(poolNeed);
      const alike = needs.filter((need) => need.pool === pool && viewKey(need) === key);
      const parts = alike.flatMap((need) => (need.shared === undefined ? [] : [{ need, requests: need.shared }]));
      parts.sort(
        (a, b) => compareLargestFirst(a.requests, b.requests) || compareText(a.need.component, b.need.component),
      );
      for (const [part, { need }] of parts.entries()) setNode(nodes, need, placed[index]?.parts[part]);
      const whole = alike.filter((need) => need.shared === undefined);
      for (const [machine, need] of whole.entries()) setNode(nodes, need, placed[index]?.whole[machine]);
    }
  }
  return needs.map((need) => {
    const { component, pool, shared } = need;
    return { component, pool, ...(shared && { shared }), node: nodes.get(need) ?? "" };
  });
}

function setNode(nodes: Map<Need, string>, need: Need, node: string | undefined): void {
  if (node === undefined) throw new Error(`pool ${need.pool} has no room for ${need.component}`);
  nodes.set(need, node);
}

/** The hold, for requests that stand behind it. */
function aheadOf(place: Place, hold: Hold | undefined): Hold | undefined {
  return hold !== undefined && comparePlaces(place, hold.place) > 0 ? hold : undefined;
}

/** What the hold leaves of the nodes that the need accepts. */
export function roomBehind(
  need: Pick<PoolNeed, "pool" | "selection">,
  machines: Machines,
  hold: Hold | undefined,
): Room {
  const room = viewOf(machines, need) ?? emptyRoom;
  const kept = hold === undefined ? [] : needsOf(need.pool, hold.needs);
  const state = machines.pools.get(need.pool);
  if (hold === undefined || kept.length === 0 || state === undefined) return room;
  const byHold = roomsBehind.get(state) ?? new WeakMap<Hold["needs"], Map<string, Room>>();
  roomsBehind.set(state, byHold);
  const known = byHold.get(hold.needs) ?? new Map<string, Room>();
  byHold.set(hold.needs, known);
  const key = viewKey(need);
  const rooms = (): Room =>
    withoutKeptFor(
      room,
      kept.map((each) => ({ need: each, room: viewOf(machines, each) ?? emptyRoom })),
    );
  const behind = known.get(key) ?? rooms();
  known.set(key, behind);
  return behind;
}

/** What the needs of a hold leave of a pool, by the `viewKey` of who wants the rest. */
const roomsBehind = new WeakMap<PoolState, WeakMap<Hold["needs"], Map<string, Room>>>();

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
  const isEachPossible = needs.every((need) => {
    const state = viewOf(machines, need);
    return state !== undefined && canHold(state, need);
  });
  if (!isEachPossible || !needs.some((need) => hasOthersOf(need, needs))) return isEachPossible;
  const pools = new Set(needs.map(({ pool }) => pool));
  return [...pools].every((pool) => canHoldTogether(machines, needsOf(pool, needs)));
}
