import type { Machine, Need, PoolNeed } from "../ledger/reservation.ts";
import { limitOf, type Ledger } from "../ledger/ledger.ts";
import { attainableOf, type Machines } from "../ledger/machines.ts";
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
      readonly available: number;
    };

/** The first thing that stands in the way, pools in the order of their names; undefined when the demand can be granted at this place now. */
export function obstacleTo(demand: Demand, place: Place, world: World, hold: Hold | undefined): Obstacle | undefined {
  if (isAtLimit(demand, world)) return { code: "CONCURRENCY_LIMIT", limit: limitOf(world.ledger, demand.ownerKind) };
  for (const { pool, count } of demand.needs) {
    const available = availableAt(place, pool, world.machines, hold);
    if (available < count || !world.machines.complete)
      return { code: shortageOf(pool, count, world.machines), pool, requested: count, available };
  }
  return undefined;
}

function shortageOf(
  pool: string,
  count: number,
  { pools, complete }: Machines,
): Exclude<WaitCode, "CONCURRENCY_LIMIT"> {
  if (!complete) return "POOLS_NOT_KNOWN_YET";
  return (pools.get(pool)?.free.size ?? 0) >= count ? "HELD_FOR_OLDER" : "POOL_AVAILABILITY";
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

/** One free node of its pool for each need, nodes in the order of their names. Only for needs that nothing stands in the way of. */
export function assignMachines(needs: readonly Need[], machines: Machines): readonly Machine[] {
  const free = new Map<string, Iterator<string>>();
  return needs.map(({ component, pool }) => {
    const nodes = free.get(pool) ?? machines.pools.get(pool)?.free.keys();
    const next = nodes?.next();
    if (nodes === undefined || next === undefined || next.done === true)
      throw new Error(`pool ${pool} has no free node for ${component}`);
    free.set(pool, nodes);
    return { component, pool, node: next.value };
  });
}

function availableAt(place: Place, pool: string, machines: Machines, hold: Hold | undefined): number {
  const free = machines.pools.get(pool)?.free.size ?? 0;
  if (hold === undefined || comparePlaces(place, hold.place) <= 0) return free;
  const kept = hold.needs.find((need) => need.pool === pool)?.count ?? 0;
  return Math.max(0, free - kept);
}

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
  return needs.every(({ pool, count }) => {
    const state = machines.pools.get(pool);
    return state !== undefined && count <= attainableOf(state);
  });
}
