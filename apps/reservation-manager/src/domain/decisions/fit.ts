import { buildAmountsKey, compareLargestFirst, describeNodeSelection } from "@muster/resources";
import {
  countByPool,
  hasOthersOf,
  getNeeds,
  countMachines,
  buildViewKey,
  type Gang,
  type Grant,
  type Machine,
  type Need,
  type PoolGang,
  type PoolNeed,
  type Reservation,
  type NodeFilter,
} from "../ledger/reservation.ts";
import { limitOf, countFreeReservations } from "../ledger/ledger.ts";
import { withoutHeldMinima, withoutHeldMinimum } from "../ledger/held-minima.ts";
import { findRoom, type Machines, type PoolState } from "../ledger/machines.ts";
import { countPlaced, placeNeeds, withoutKeptFor, type PlacedNeed } from "../ledger/place-needs.ts";
import { emptyRoom, placeShared, type Room } from "../ledger/room.ts";
import { compareText } from "../ledger/sorted-map.ts";
import { listAlternatives } from "../ledger/topology.ts";
import { compareQueuePositions, type QueuePosition, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { sumRequestedAmounts, sumUsedAmounts } from "./sum-requested-amounts.ts";
import {
  findHeldQuota,
  findQuotaOfHold,
  findQueueObstacle,
  findShortageAlone,
  findUseObstacle,
  computeDemandLevel,
  type QueueDemand,
  type QueueObstacle,
  type QuotaHolds,
} from "./find-queue-obstacle.ts";

export type HoldPolicy = {
  /** Time during which younger requests may overtake a request before machines are kept for it, in ms. */
  readonly holdAfterMs: number;
};

/** Machines kept for one overdue request; requests behind it may not use them. */
export type MachineHold = {
  readonly place: QueuePosition;
  readonly needs: readonly PoolNeed[];
  readonly queue: string | undefined;
  /** True if the request's own quota does not suffice. */
  readonly isBorrowing: boolean;
};

/** The machines and quota held for overdue requests. */
export type OverdueHolds = {
  readonly machines: MachineHold | undefined;
  readonly quotas: QuotaHolds;
  /** Requests that began to wait before this time are overdue. */
  readonly overdueSinceMs: number;
};

/** The parts of a request that decide about a grant, beside its place. */
export type Demand = Pick<WaitingClass, "ownerKind" | "needs" | "topology" | "queue" | "notPreemptible">;

/**
 * POOL_AVAILABILITY: too few machines are free. HELD_FOR_OLDER: enough are free, but kept for an older request. POOLS_NOT_KNOWN_YET: the known nodes are
 * incomplete or outdated, so free machines may no longer exist. CONCURRENCY_LIMIT: the owner's kind has reached its limit of grants. WAITING_FOR_TOPOLOGY:
 * enough machines are free, but not in one domain.
 */
type MachineCode = "POOL_AVAILABILITY" | "HELD_FOR_OLDER" | "POOLS_NOT_KNOWN_YET" | "WAITING_FOR_TOPOLOGY";

export type WaitCode = "CONCURRENCY_LIMIT" | MachineCode | QueueObstacle["code"];

/** The reason that prevents a grant now. */
export type GrantObstacle =
  { readonly code: "CONCURRENCY_LIMIT"; readonly limit: number } | QueueObstacle | MachineObstacle;

type MachineObstacle = {
  readonly code: MachineCode;
  readonly pool: string;
  readonly requested: number;
  /** Number of parts of machines in `requested`. */
  readonly parts: number;
  readonly available: number;
  /** Description of the nodes that count; absent: each node of the pool without taints. */
  readonly nodes?: string;
  /** The domain with the most room; the numbers sum all needs. */
  readonly topology?: DomainRoom;
};

/** The domain of a topology where the most needs fit. An empty value: no node has the label. */
export type DomainRoom = { readonly key: string; readonly value: string };

/**
 * Returns the first obstacle to a grant at this place now: the concurrency limit, the queue, then the machines of the pools in name order. Undefined: the
 * demand can be granted.
 */
export function findObstacle(
  demand: Demand,
  place: QueuePosition,
  world: World,
  holds: RequestHolds,
): GrantObstacle | undefined {
  if (isAtLimit(demand, world)) return { code: "CONCURRENCY_LIMIT", limit: limitOf(world.ledger, demand.ownerKind) };
  return (
    findQueueObstacle(demand, place, world) ??
    findHeldQuota(demand, place, world, holds.quotas) ??
    findQuotaOfHold(demand, place, world, holds.machines) ??
    findMachineObstacle(demand, place, world, holds.machines) ??
    findChosenObstacle(demand, place, world, holds.machines)
  );
}

type RequestHolds = Pick<OverdueHolds, "machines" | "quotas">;

export const NO_HOLDS: RequestHolds = { machines: undefined, quotas: () => undefined };

/** As `findObstacle`, for a beneficiary: no request is ahead of it, and no hold excludes it. */
export function findBeneficiaryObstacle(
  demand: Demand,
  place: QueuePosition,
  world: World,
  holds: RequestHolds = NO_HOLDS,
): GrantObstacle | undefined {
  if (isAtLimit(demand, world)) return { code: "CONCURRENCY_LIMIT", limit: limitOf(world.ledger, demand.ownerKind) };
  return (
    findShortageAlone(demand, world) ??
    findHeldQuota(demand, place, world, holds.quotas) ??
    findMachineObstacle(demand, place, world, holds.machines) ??
    findChosenObstacle(demand, place, world, holds.machines)
  );
}

/** Returns an obstacle if the chosen machines exceed the quota. Earlier checks count only the smallest accepted machines. */
function findChosenObstacle(
  demand: Demand,
  place: QueuePosition,
  world: World,
  hold: MachineHold | undefined,
): QueueObstacle | undefined {
  const { queue, needs } = demand;
  const { machines } = world;
  if (queue === undefined || sumRequestedAmounts(needs, machines).isExact) return undefined;
  const ahead = findHoldAhead(demand, place, world, hold);
  const chosen = chooseAlternative(demand, machines, ahead);
  const granted = [...new Set(chosen.map(({ pool }) => pool))].flatMap((pool) => {
    const ofPool = getNeeds(pool, chosen);
    return placeInPool(ofPool, machines, ahead).flatMap(({ whole }, index) => [
      ...whole.map((node) => ({ component: "", pool, node })),
      ...(ofPool[index]?.shared ?? []).map((shared) => ({ component: "", pool, node: "", shared })),
    ]);
  });
  return findUseObstacle(queue, sumUsedAmounts(granted, machines), place, world);
}

function findMachineObstacle(
  demand: Demand,
  place: QueuePosition,
  world: World,
  hold: MachineHold | undefined,
): MachineObstacle | undefined {
  const ahead = findHoldAhead(demand, place, world, hold);
  const shortage = findShortage(withoutHeldMinima(demand.needs, world.machines), world.machines, ahead);
  if (shortage !== undefined || demand.topology === undefined) return shortage;
  return findTopologyShortage(demand, demand.topology, world.machines, ahead);
}

function findShortage(
  needs: readonly PoolNeed[],
  machines: Machines,
  hold: MachineHold | undefined,
): MachineObstacle | undefined {
  for (const need of needs) {
    const { available, fits } = countAvailable(need, needs, machines, hold);
    if (fits && machines.complete) continue;
    const [requested, parts] = [countMachines(need), need.shared.length];
    const code = shortageOf(need, needs, machines);
    const nodes = need.selection && describeNodeSelection(need.selection);
    return { code, pool: need.pool, requested, parts, available, ...(nodes !== undefined && { nodes }) };
  }
  return undefined;
}

/** Explains needs that fit only without their topology. */
function findTopologyShortage(
  gang: PoolGang,
  key: string,
  machines: Machines,
  hold: MachineHold | undefined,
): MachineObstacle | undefined {
  const lists = listAlternatives(gang, machines);
  if (lists.some((needs) => fitsListBehind(needs, machines, hold))) return undefined;
  const isHeld = lists.some((needs) => fitsListBehind(needs, machines, undefined));
  const { needs: best, fitting = 0 } = countMostAvailable(lists, machines, hold) ?? {};
  return {
    code: isHeld ? "HELD_FOR_OLDER" : "WAITING_FOR_TOPOLOGY",
    pool: gang.needs[0]?.pool ?? "",
    requested: gang.needs.reduce((sum, need) => sum + countMachines(need), 0),
    parts: gang.needs.reduce((sum, { shared }) => sum + shared.length, 0),
    available: fitting,
    topology: { key, value: best?.[0]?.domain?.value ?? "" },
  };
}

/** Returns the list whose domain fits the most needs, and their number; ties go to the first list. */
export function countMostAvailable(
  lists: readonly (readonly PoolNeed[])[],
  machines: Machines,
  hold: MachineHold | undefined,
): { readonly needs: readonly PoolNeed[]; readonly fitting: number } | undefined {
  const [most] = lists
    .map((needs) => ({ needs, fitting: countFitting(needs, machines, hold) }))
    .sort((a, b) => b.fitting - a.fitting);
  return most;
}

function countFitting(needs: readonly PoolNeed[], machines: Machines, hold: MachineHold | undefined): number {
  return needs.reduce(
    (sum, need) => sum + Math.min(countMachines(need), countAvailable(need, needs, machines, hold).available),
    0,
  );
}

function shortageOf(need: PoolNeed, needs: readonly PoolNeed[], machines: Machines): MachineCode {
  if (!machines.complete) return "POOLS_NOT_KNOWN_YET";
  return countAvailable(need, needs, machines, undefined).fits ? "HELD_FOR_OLDER" : "POOL_AVAILABILITY";
}

/**
 * Whether the need fits behind the hold beside the other needs of its demand. `available`: the free machines if only whole ones are needed; otherwise the
 * machines and parts of the need that fit now.
 */
function countAvailable(
  need: PoolNeed,
  needs: readonly PoolNeed[],
  machines: Machines,
  hold: MachineHold | undefined,
): Fit {
  const { pool, count } = need;
  if (hasOthersOf(need, needs)) {
    const ofPool = getNeeds(pool, needs);
    return fitOf(need, placeInPool(ofPool, machines, hold)[ofPool.indexOf(need)]);
  }
  const kept = isPlain(need) ? countKept(pool, hold) : undefined;
  if (kept === undefined) return placeAll(getRoomBehindHolds(need, machines, hold), need);
  const available = Math.max(0, (machines.pools.get(pool)?.free.size ?? 0) - kept);
  return { available, fits: count <= available };
}

/** Whether counting suffices: the need is for whole machines of the whole pool only. */
function isPlain({ shared, selection, domain }: PoolNeed): boolean {
  return shared.length === 0 && selection === undefined && domain === undefined;
}

/** Counts whole machines that the hold keeps; undefined: counting does not suffice. */
function countKept(pool: string, hold: MachineHold | undefined): number | undefined {
  let kept = 0;
  for (const need of hold?.needs ?? []) {
    if (need.pool !== pool) continue;
    if (!isPlain(need)) return undefined;
    kept += need.count;
  }
  return kept;
}

function placeInPool(
  needs: readonly PoolNeed[],
  machines: Machines,
  hold: MachineHold | undefined,
): readonly PlacedNeed[] {
  return placeNeeds(needs.map((need) => ({ need, room: getRoomBehindHolds(need, machines, hold) })));
}

function fitOf({ count, shared }: PoolNeed, { parts, whole }: PlacedNeed = { parts: [], whole: [] }): Fit {
  const placed = countPlaced(parts);
  return { available: placed + whole.length, fits: placed === shared.length && whole.length === count };
}

type Fit = { readonly available: number; readonly fits: boolean };

/** Caches fits by room, because most rooms stay unchanged between decisions and the same shapes wait. */
const fitsByRoom = new WeakMap<Room, Map<string, Fit>>();
const MAX_FITS = 10_000;

function placeAll(room: Room, { count, shared }: PoolNeed): Fit {
  const key = `${count} ${shared.map(buildAmountsKey).join("")}`;
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

/** Excludes most domains by their number of free machines, without placing any need. */
function isTooSmallNow(need: PoolNeed, machines: Machines): boolean {
  return need.domain !== undefined && need.count > (findRoom(machines, need)?.free.size ?? 0);
}

/** Whether a gang behind the hold fits; a gang with a topology must fit in one domain. */
export function canFitBehindHolds(gang: PoolGang, machines: Machines, hold: MachineHold | undefined): boolean {
  return listAlternatives(gang, machines).some((needs) => fitsListBehind(needs, machines, hold));
}

function fitsListBehind(needs: readonly PoolNeed[], machines: Machines, hold: MachineHold | undefined): boolean {
  if (needs.some((need) => isTooSmallNow(need, machines))) return false;
  return needs.every((need) => countAvailable(need, needs, machines, hold).fits);
}

/**
 * Assigns a node to each need: first to parts (`placeShared`), then the first free nodes (`FreeKey`) to whole machines. With a topology, all nodes are in the
 * first domain where the needs fit. The needs must have no obstacle. `ahead`: the hold that the needs are behind.
 */
export function assignMachines(
  { needs, topology, queue }: Gang & Pick<Reservation, "queue">,
  machines: Machines,
  ahead: MachineHold | undefined,
): Omit<Grant, "atMs"> {
  const nodes = new Map<Need, string>();
  const counted = chooseAlternative({ needs: countByPool(needs), topology }, machines, ahead);
  const keys = new Map(needs.map((need) => [need, buildViewKey(withoutHeldMinimum(need, machines))]));
  for (const pool of new Set(needs.map((need) => need.pool))) {
    const ofPool = getNeeds(pool, counted);
    const placed = placeInPool(ofPool, machines, ahead);
    for (const [index, poolNeed] of ofPool.entries()) {
      const { domain: _domain, ...accepted } = poolNeed;
      const key = buildViewKey(accepted);
      const alike = needs.filter((need) => need.pool === pool && keys.get(need) === key);
      const parts = alike.flatMap((need) => (need.shared === undefined ? [] : [{ need, requests: need.shared }]));
      parts.sort(
        (a, b) => compareLargestFirst(a.requests, b.requests) || compareText(a.need.component, b.need.component),
      );
      for (const [part, { need }] of parts.entries()) setNode(nodes, need, placed[index]?.parts[part]);
      const whole = alike.filter((need) => need.shared === undefined);
      for (const [machine, need] of whole.entries()) setNode(nodes, need, placed[index]?.whole[machine]);
    }
  }
  const assigned = needs.map((need): Machine => {
    const { component, pool, shared } = need;
    return { component, pool, ...(shared && { shared }), node: nodes.get(need) ?? "" };
  });
  const domain = counted[0]?.domain?.value;
  return {
    machines: assigned,
    ...(domain !== undefined && { domain }),
    ...(queue !== undefined && { use: sumUsedAmounts(assigned, machines) }),
  };
}

function chooseAlternative(gang: PoolGang, machines: Machines, hold: MachineHold | undefined): readonly PoolNeed[] {
  if (gang.topology === undefined) return withoutHeldMinima(gang.needs, machines);
  const chosen = listAlternatives(gang, machines).find((needs) => fitsListBehind(needs, machines, hold));
  if (chosen === undefined) throw new Error(`no value of the label ${gang.topology} has room`);
  return chosen;
}

function setNode(nodes: Map<Need, string>, need: Need, node: string | undefined): void {
  if (node === undefined) throw new Error(`pool ${need.pool} has no room for ${need.component}`);
  nodes.set(need, node);
}

/**
 * Returns the hold if this request is behind it. Within one queue, priority and age decide. Between queues, borrowers are behind requests that do not borrow,
 * then priority and age decide.
 */
export function findHoldAhead(
  demand: QueueDemand,
  place: QueuePosition,
  world: World,
  hold: MachineHold | undefined,
): MachineHold | undefined {
  if (hold === undefined || hold.place.sequence === place.sequence) return undefined;
  const isBorrowing = demand.queue === hold.queue ? hold.isBorrowing : computeDemandLevel(demand, place, world) > 0;
  return (Number(isBorrowing) - Number(hold.isBorrowing) || compareQueuePositions(place, hold.place)) > 0
    ? hold
    : undefined;
}

/** The room that the hold leaves on the nodes that the need accepts. */
export function getRoomBehindHolds(need: NodeFilter, machines: Machines, hold: MachineHold | undefined): Room {
  const room = findRoom(machines, need) ?? emptyRoom;
  const kept = hold === undefined ? [] : getNeeds(need.pool, hold.needs);
  const state = machines.pools.get(need.pool);
  if (hold === undefined || kept.length === 0 || state === undefined) return room;
  const byHold = roomsBehind.get(state) ?? new WeakMap<MachineHold["needs"], Map<string, Room>>();
  roomsBehind.set(state, byHold);
  const known = byHold.get(hold.needs) ?? new Map<string, Room>();
  byHold.set(hold.needs, known);
  const key = buildViewKey(need);
  const rooms = (): Room =>
    withoutKeptFor(
      room,
      kept.map((each) => ({ need: each, room: findRoom(machines, each) ?? emptyRoom })),
    );
  const behind = known.get(key) ?? rooms();
  known.set(key, behind);
  return behind;
}

/** The room that a hold leaves in a pool, by the `buildViewKey` of the need that uses the rest. */
const roomsBehind = new WeakMap<PoolState, WeakMap<MachineHold["needs"], Map<string, Room>>>();

export function isAtLimit({ ownerKind }: Pick<Demand, "ownerKind">, { ledger }: World): boolean {
  return countFreeReservations(ownerKind, ledger) === 0;
}
