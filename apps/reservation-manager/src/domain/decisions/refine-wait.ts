import { buildAmountsKey, sumUse, type Amounts } from "@muster/resources";
import { findImpossible } from "./decide-reservation.ts";
import { findHoldAhead, findObstacle, type OverdueHolds, type GrantObstacle } from "./fit.ts";
import { findQueueObstacle, computeDemandLevel } from "./find-queue-obstacle.ts";
import type { Option } from "./choose-option.ts";
import { buildFutureWorld, isChanging } from "./future.ts";
import { comparePrecedence, buildRequestPrecedence, type RequestPrecedence, type OrderRule } from "./precedence.ts";
import { summariseAccepted, summarisePools } from "./summarise-pools.ts";
import { withoutHeldMinima } from "../ledger/held-minima.ts";
import { getReservation } from "../ledger/ledger.ts";
import type { Machines } from "../ledger/machines.ts";
import { getNeeds, buildViewKey, type PoolGang, type PoolNeed } from "../ledger/reservation.ts";
import type { World } from "../ledger/world.ts";

/**
 * POOL_TOO_SMALL: the pool has lost nodes, so an equal new request would be refused. FRAGMENTED: the free amounts suffice in sum, but not on single machines.
 * BEHIND_HIGHER_PRIORITY, BEHIND_FAIR_SHARE: machines or quota are kept for a request that goes first, by priority or by the share of its queue.
 */
export type PreciseWait =
  | { readonly code: "POOL_TOO_SMALL" | "FRAGMENTED" }
  | { readonly code: "BEHIND_HIGHER_PRIORITY" | "BEHIND_FAIR_SHARE"; readonly behind: number };

type Request = Pick<Option, "demand" | "place">;

/**
 * Returns a more precise reason than the obstacle; undefined: none. Grant passes need only the obstacle, so this search does not slow them down. `open`: the
 * world in which the obstacle was found, without the machines and quota kept for beneficiaries.
 */
export function refineWait(
  obstacle: GrantObstacle,
  { demand, place }: Request,
  { world, open, holds }: { readonly world: World; readonly open: World; readonly holds: OverdueHolds },
): PreciseWait | undefined {
  const { code } = obstacle;
  if (code === "HELD_FOR_OLDER") return refineHeld({ demand, place }, open, holds);
  if (code === "WAITING_FOR_QUOTA" && findQueueObstacle(demand, place, open) === undefined)
    return refineHeldQuota({ demand, place }, holds);
  const isOfMachines = code === "POOL_AVAILABILITY" || code === "WAITING_FOR_TOPOLOGY";
  if (isOfMachines && isTooLarge(demand, world.machines)) return { code: "POOL_TOO_SMALL" };
  if (isOfMachines || code === "WAITING_FOR_QUOTA") {
    const behind = findKeptFor({ demand, place }, world, holds);
    if (behind !== undefined) return behind;
  }
  if (code === "POOL_AVAILABILITY" && isFragmented(demand, obstacle.pool, open.machines)) return { code: "FRAGMENTED" };
  return undefined;
}

/** Machines are kept for requests that do not borrow first, then by priority, then by age. */
function refineHeld(
  { demand, place }: Request,
  world: World,
  { machines: hold }: OverdueHolds,
): PreciseWait | undefined {
  if (findHoldAhead(demand, place, world, hold) === undefined || hold === undefined) return undefined;
  const behind = hold.place.sequence;
  const isBorrowing = demand.queue !== hold.queue && computeDemandLevel(demand, place, world) > 0;
  if (isBorrowing && !hold.isBorrowing) return { code: "BEHIND_FAIR_SHARE", behind };
  return hold.place.priority > place.priority ? { code: "BEHIND_HIGHER_PRIORITY", behind } : undefined;
}

/** A queue keeps quota for one of its own requests. */
function refineHeldQuota(
  { demand: { queue = "" }, place }: Request,
  { quotas }: OverdueHolds,
): PreciseWait | undefined {
  const held = quotas(queue)?.place;
  if (held === undefined || held.priority <= place.priority) return undefined;
  return { code: "BEHIND_HIGHER_PRIORITY", behind: held.sequence };
}

const CODES: Readonly<Partial<Record<OrderRule, "BEHIND_HIGHER_PRIORITY" | "BEHIND_FAIR_SHARE">>> = {
  WEIGHT: "BEHIND_FAIR_SHARE",
  QUOTA: "BEHIND_FAIR_SHARE",
  SHARE: "BEHIND_FAIR_SHARE",
  PRIORITY: "BEHIND_HIGHER_PRIORITY",
};

/** Finds the first beneficiary whose kept machines or quota are the only obstacle to this request. */
function findKeptFor({ demand, place }: Request, world: World, holds: OverdueHolds): PreciseWait | undefined {
  if (!isChanging(world) || findObstacle(demand, place, world, holds) !== undefined) return undefined;
  const own = buildRequestPrecedence(getReservation(world.ledger, place.sequence), world);
  for (const { sequence, ordered } of beneficiariesOf(world)) {
    const { isBehind, rule } = comparePrecedence(own, ordered, world);
    const code = isBehind ? CODES[rule] : undefined;
    if (code !== undefined) return { code, behind: sequence };
  }
  return undefined;
}

type Beneficiary = { readonly sequence: number; readonly ordered: RequestPrecedence };

const beneficiaries = new WeakMap<World["ledger"], readonly Beneficiary[]>();

/** Beneficiaries with machines in the future, in the order of their preemptions; cached for all requests of a page. */
function beneficiariesOf(world: World): readonly Beneficiary[] {
  const { ledger } = world;
  const known = beneficiaries.get(ledger);
  if (known !== undefined) return known;
  const found = [...buildFutureWorld(world).placed].map((sequence): Beneficiary => {
    const reservation = getReservation(ledger, sequence);
    return { sequence, ordered: buildRequestPrecedence(reservation, world) };
  });
  beneficiaries.set(ledger, found);
  return found;
}

/** Caches answers by gang, because a page lists many equal requests. */
const answers = new WeakMap<Machines, Map<string, boolean>>();

function remember(machines: Machines, key: string, find: () => boolean): boolean {
  const known = answers.get(machines) ?? new Map<string, boolean>();
  answers.set(machines, known);
  const answer = known.get(key) ?? find();
  known.set(key, answer);
  return answer;
}

function gangKey({ needs, topology = "" }: PoolGang): string {
  const keys = needs.map((need) => `${buildViewKey(need)} ${need.count} ${need.shared.map(buildAmountsKey).join("")}`);
  return `${topology} ${keys.join(" ")}`;
}

function isTooLarge(gang: PoolGang, machines: Machines): boolean {
  return remember(machines, `large ${gangKey(gang)}`, () => {
    const fault = findImpossible(gang, machines);
    return fault?.code === "pool_capacity" || fault?.code === "pool_unknown";
  });
}

/** Whether the free amounts of the accepted nodes suffice in sum for all needed parts of the pool. False if whole machines are needed. */
function isFragmented(gang: PoolGang, pool: string, machines: Machines): boolean {
  return remember(machines, `fragmented ${pool} ${gangKey(gang)}`, () => {
    const needs = getNeeds(pool, withoutHeldMinima(gang.needs, machines));
    if (needs.some(({ count }) => count > 0)) return false;
    const requested = new Map<string, number>();
    for (const part of needs.flatMap(({ shared }) => shared))
      for (const [resource, amount] of sumUse(part)) requested.set(resource, (requested.get(resource) ?? 0) + amount);
    return needs.every((need) => {
      const free = freeOf(need, machines);
      return [...requested].every(([resource, amount]) => amount <= (free.get(resource) ?? 0));
    });
  });
}

function freeOf(need: PoolNeed, machines: Machines): Amounts {
  if (need.selection !== undefined) return summariseAccepted(machines, need).free;
  return summarisePools(machines).get(need.pool)?.free ?? new Map();
}
