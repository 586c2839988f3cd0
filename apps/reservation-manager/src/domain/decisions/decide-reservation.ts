import type { Fault, ShortResource } from "@muster/faults";
import { getMinimum, type Amounts } from "@muster/resources";
import { checkRequest, type ReservationRequest } from "./check-request.ts";
import { findHolds } from "./find-hold.ts";
import { assignMachines, findHoldAhead, findObstacle, type GrantObstacle, type WaitCode } from "./fit.ts";
import { findReservation, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";
import { chooseOption, chooseReported, listOptions, type Option } from "./choose-option.ts";
import { arePlacesKept, buildWorldForOthers } from "./future.ts";
import { withExcluded } from "./name-excluded.ts";
import { fitTogether, countFittingParts } from "../ledger/can-hold.ts";
import { mayFitUnsized, withAnySize, withoutHeldMinima } from "../ledger/held-minima.ts";
import { countLargest, countMaxMachines, findRoom, type Machines, type PoolState } from "../ledger/machines.ts";
import type { GrantPolicy } from "./plan-grants.ts";
import { settleGrants } from "./plan-settlement.ts";
import { decideLimit } from "./decide-limit.ts";
import type { Owner } from "@muster/names";
import { areNeedsEqual, countMachines, type PoolGang, type PoolNeed, type Reservation } from "../ledger/reservation.ts";
import { findLargestAmounts } from "../ledger/room.ts";
import { compareText } from "../ledger/sorted-map.ts";
import { listAlternatives } from "../ledger/topology.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import type { QueueDemand } from "./find-queue-obstacle.ts";
import { findQuotaTooSmall } from "./queue-heads.ts";
import { getForest, isBroken } from "../ledger/queue-forest.ts";
import { parsePair, type Queue } from "../ledger/queue.ts";

export type ReservationPolicy = GrantPolicy & {
  /** Limit of waiting requests. */
  readonly queueLimit: number;
};

/** `events` are the changes of the ledger; a refusal has none. */
export type Verdict =
  | {
      readonly kind: "answer";
      readonly sequence: number;
      readonly events: readonly LedgerEvent[];
      readonly because: "SAME_NEEDS";
    }
  | {
      readonly kind: "grant";
      readonly sequence: number;
      readonly events: readonly LedgerEvent[];
      readonly because: "FITS";
    }
  | {
      readonly kind: "queue";
      readonly sequence: number;
      readonly events: readonly LedgerEvent[];
      readonly because: WaitCode;
    }
  /** The requested limit lets more waiting requests fit than one plan grants. Apply the events and decide again. */
  | { readonly kind: "limit"; readonly events: readonly LedgerEvent[]; readonly because: "ANOTHER_LIMIT" }
  | { readonly kind: "refuse"; readonly fault: Fault };

/** Machines and places in the queue usually become free within this time. */
const QUEUE_RETRY_AFTER_MS = 5000;
const CONCURRENCY_RETRY_AFTER_MS = 1000;
const NODES_RETRY_AFTER_MS = 1000;

const NOT_KNOWN_YET: Fault = {
  code: "unavailable",
  dependency: "the list of all nodes (POOLS_NOT_KNOWN_YET)",
  retryAfterMs: NODES_RETRY_AFTER_MS,
};

const NOT_NOW: Fault = {
  code: "unavailable",
  dependency: "quota that is kept for another request (KEPT_FOR_OWNER)",
  retryAfterMs: CONCURRENCY_RETRY_AFTER_MS,
};

const SIZES_NOT_KNOWN_YET: Fault = {
  code: "unavailable",
  dependency: "what the nodes of the pool can allocate (POOLS_NOT_KNOWN_YET)",
  retryAfterMs: NODES_RETRY_AFTER_MS,
};

/**
 * Decides one request: all machines, a place in the queue, or a refusal. Waiting requests that fit are granted before (`planGrants`), so everything that is
 * free now is free for this request.
 *
 * Refuses in this order, each with the first pool by name: an unknown queue; an unknown pool, which no node names and no scaler scales; a pool that is too
 * small even if empty and fully scaled; a quota that never suffices; machines short now. Refusals are temporary until all nodes are known.
 *
 * A request with a new limit for its owner's kind sets it for all waiting requests, and those that fit by it go first. A refused request sets nothing.
 */
export function decideReservation(
  request: ReservationRequest,
  world: World,
  policy: ReservationPolicy,
  nowMs: number,
): Verdict {
  const wrong = checkRequest(request);
  if (wrong !== undefined) return { kind: "refuse", fault: wrong };
  const limit = decideLimit({ ownerKind: request.owner.kind, limit: request.concurrencyLimit }, world.ledger, nowMs);
  if (limit.kind === "nothing") return decideWithinLimit(request, world, policy, nowMs);

  const settled = settleGrants(evolveWorld(world, limit.events), policy, nowMs);
  const verdict = decideWithinLimit(request, settled.world, policy, nowMs);
  if (verdict.kind === "refuse") return verdict;
  const events = [...limit.events, ...settled.events];
  if (!settled.complete) return { kind: "limit", events, because: limit.because };
  return { ...verdict, events: [...events, ...verdict.events] };
}

/** Decides by the limit in force and ignores the limit in the request. */
function decideWithinLimit(
  request: ReservationRequest,
  world: World,
  policy: ReservationPolicy,
  nowMs: number,
): Exclude<Verdict, { kind: "limit" }> {
  const existing = findReservation(world.ledger, request.owner);
  if (existing !== undefined) return decideRepeated(request, existing);

  const { owner, topology, queue } = request;
  const unknownQueue = queue === undefined ? undefined : findUnknownQueue(queue, world.ledger);
  if (unknownQueue !== undefined) return { kind: "refuse", fault: unknownQueue };
  const { nextSequence: sequence, queue: waiting, queues } = world.ledger;
  const priority = lowerPriority(request.priority, queue === undefined ? undefined : queues.get(queue));
  const { notPreemptible, beyondMinimum, graceMs } = request;
  const gang = {
    needs: request.needs,
    ...(topology !== undefined && { topology }),
    ...(queue !== undefined && { queue }),
    ...(notPreemptible && { notPreemptible }),
    ...(beyondMinimum && { beyondMinimum }),
    ...(graceMs !== undefined && { graceMs }),
  };
  const reservation: Reservation = { sequence, owner, ...gang, priority, createdAtMs: nowMs };
  const options = listOptions(reservation);
  const impossible = findRefusal(options, world);
  if (impossible !== undefined) return { kind: "refuse", fault: impossible };

  const requested: LedgerEvent = { kind: "requested", reservation, atMs: nowMs };
  const open = buildWorldForOthers(world);
  const holds = findHolds(open, policy, nowMs);
  const obstacleOf = ({ demand, place }: Option): GrantObstacle | undefined => findObstacle(demand, place, open, holds);
  const chosen = chooseOption(options, open, (option) => obstacleOf(option) !== undefined);
  const obstacle = chosen === undefined ? obstacleOf(chooseReported(options, world)) : undefined;

  if (chosen !== undefined) {
    const { needs, demand, place } = chosen;
    const ahead = findHoldAhead(demand, place, open, holds.machines);
    const assigned = assignMachines({ ...gang, needs }, open.machines, ahead);
    const granted: LedgerEvent = { kind: "granted", sequence, ...assigned, atMs: nowMs };
    if (arePlacesKept(world, [requested, granted]))
      return { kind: "grant", sequence, events: [requested, granted], because: "FITS" };
  }
  if (!request.wait) return { kind: "refuse", fault: obstacle === undefined ? NOT_NOW : faultOf(obstacle, owner) };
  if (waiting.places.size >= policy.queueLimit) return { kind: "refuse", fault: queueIsFull(policy.queueLimit) };
  return { kind: "queue", sequence, events: [requested], because: obstacle?.code ?? "KEPT_FOR_OWNER" };
}

/** Returns why no option can ever be granted, or which pool is unknown: the first reason, unless another one is temporary. */
function findRefusal(options: readonly Option[], world: World): Fault | undefined {
  const { machines } = world;
  const needs = options.flatMap(({ demand }) => demand.needs);
  const toRefusal = (fault: Fault): Fault => (machines.complete ? withExcluded(fault, needs, machines) : NOT_KNOWN_YET);
  const unknown = findUnknownPool(needs, machines);
  if (unknown !== undefined) return toRefusal(unknown);
  const faults: Fault[] = [];
  for (const { demand } of options) {
    const fault = findImpossible(demand, machines) ?? findSmallQuota(demand, world);
    if (fault === undefined) return undefined;
    faults.push(fault);
  }
  const fault = faults.find(({ code }) => code === "unavailable") ?? faults[0];
  return fault && toRefusal(fault);
}

/** Returns why the gang can never be granted with the current nodes and scaling; undefined: a grant is possible. */
export function findImpossible(gang: PoolGang, machines: Machines): Fault | undefined {
  const needs = withoutHeldMinima(gang.needs, machines);
  return (
    findUnknownPool(needs, machines) ?? findSmallPool(needs, machines) ?? findSmallDomains({ ...gang, needs }, machines)
  );
}

function decideRepeated(
  request: ReservationRequest,
  existing: Reservation,
): Extract<Verdict, { kind: "answer" | "refuse" }> {
  const { sequence } = existing;
  if (areNeedsEqual(request, existing)) return { kind: "answer", sequence, events: [], because: "SAME_NEEDS" };
  const { kind, id } = request.owner;
  return { kind: "refuse", fault: { code: "reservation_differs", ownerKind: kind, ownerId: id } };
}

/** Limit of names in a fault, so that it stays readable and fits in one message. */
const MAX_NAMED = 20;

function findUnknownQueue(queue: string, { queues }: Ledger): Fault | undefined {
  const forest = getForest(queues);
  const node = forest.get(queue);
  if (node !== undefined && (node.children.length === 0 || isBroken(node))) return undefined;
  const leaves = [...forest.values()].filter(({ children }) => children.length === 0);
  const known = leaves.map((leaf) => leaf.queue.name).sort();
  return { code: "queue_unknown", queue, ...(known.length > 0 && { known: known.slice(0, MAX_NAMED) }) };
}

/** Refuses a request that exceeds the quota even if nothing else is granted. A queue of unknown quota refuses nothing, because its problem may be temporary. */
function findSmallQuota({ queue, needs }: QueueDemand, { ledger, machines }: World): Fault | undefined {
  const node = queue === undefined ? undefined : getForest(ledger.queues).get(queue);
  if (queue === undefined || node === undefined || isBroken(node)) return undefined;
  const short = findQuotaTooSmall(node, { needs }, machines);
  if (short === undefined) return undefined;
  const { pair, requested, available } = short;
  return { code: "quota_exceeded", queue, ...parsePair(pair), requested, most: available };
}

function lowerPriority(priority: number, queue: Queue | undefined): number {
  return Math.min(priority, queue?.maxPriority ?? priority);
}

function findUnknownPool(needs: readonly PoolNeed[], { pools }: Machines): Fault | undefined {
  const unknown = needs.find(({ pool }) => pools.get(pool) === undefined);
  if (unknown === undefined) return undefined;
  const known = [...pools.keys()].sort().slice(0, MAX_NAMED);
  return { code: "pool_unknown", pool: unknown.pool, ...(known.length > 0 && { known }) };
}

function findSmallPool(needs: readonly PoolNeed[], machines: Machines): Fault | undefined {
  for (const need of needs) {
    const small = findSmallView(need, machines);
    if (small !== undefined) return small;
  }
  for (const pool of new Set(needs.map((need) => need.pool))) {
    const ofPool = needs.filter((need) => need.pool === pool);
    if (!isExact(ofPool) || machines.pools.get(pool)?.scaling !== undefined) continue;
    const requested = ofPool.reduce((sum, need) => sum + countMachines(need), 0);
    const capacity = fitTogether(machines, ofPool, "foreign pods leave");
    if (capacity >= requested) continue;
    if (ofPool.some((need) => mayFitUnsized(need, machines))) return SIZES_NOT_KNOWN_YET;
    return { code: "pool_capacity", pool, requested, capacity };
  }
  return undefined;
}

/**
 * Refuses a gang that fits in no domain of its topology, and names the largest domain. A scaled pool refuses none, because the labels of future nodes are
 * unknown.
 */
function findSmallDomains({ needs, topology }: PoolGang, machines: Machines): Fault | undefined {
  if (topology === undefined || needs.some(({ pool }) => machines.pools.get(pool)?.scaling !== undefined))
    return undefined;
  let largest: Extract<Fault, { code: "pool_capacity" }> | undefined;
  let unknown: Fault | undefined;
  for (const list of listAlternatives({ needs, topology }, machines)) {
    const small = findSmallPool(list, machines);
    if (small === undefined) return undefined;
    if (small.code !== "pool_capacity") unknown = small;
    else if (largest === undefined || small.capacity > largest.capacity) largest = small;
  }
  if (unknown !== undefined) return unknown;
  const [first] = needs;
  const nowhere = { pool: first?.pool ?? "", requested: first === undefined ? 0 : countMachines(first), capacity: 0 };
  return { code: "pool_capacity", ...(largest ?? nowhere), topology };
}

/** Whether `placeNeeds` finds an arrangement of these needs of one pool whenever one exists. */
function isExact(needs: readonly PoolNeed[]): boolean {
  return needs.length === 2 && needs.every(({ shared }) => shared.length === 0);
}

function findSmallView(need: PoolNeed, all: Machines): Fault | undefined {
  const { pool, count } = need;
  const state = findRoom(all, need);
  const machines = state === undefined ? 0 : countMaxMachines(state);
  // New nodes of a growing pool may be larger than its current nodes.
  const mayGrow = state !== undefined && machines > countLargest(state);
  if (count <= machines && (mayGrow || need.shared.length === 0)) return undefined;
  const parts =
    state === undefined || count > machines ? 0 : countFittingParts(state, need, machines, "foreign pods leave");
  if (count <= machines && parts === need.shared.length) return undefined;
  const anySize = findRoom(all, withAnySize(need));
  const isLarge = anySize === undefined || count > countMaxMachines(anySize);
  if (!isLarge && mayFitUnsized(need, all)) return SIZES_NOT_KNOWN_YET;
  const tooLarge = count > machines ? [getMinimum(need.selection) ?? NOTHING] : need.shared;
  const short = isLarge ? [] : findShortResources(tooLarge, anySize);
  const capacity = Math.min(count, machines) + parts;
  return { code: "pool_capacity", pool, requested: countMachines(need), capacity, ...(short.length > 0 && { short }) };
}

const NOTHING: Amounts = new Map();

/** Limit of resources in a fault, so that it fits in one message. */
const MAX_SHORT_RESOURCES = 16;

/** Lists by name the resources that exceed every machine of the pool. Empty if the pool has no machine of known size. */
function findShortResources(requests: readonly Amounts[], { sizes }: PoolState): readonly ShortResource[] {
  const machines = [...sizes.values()].flatMap(({ allocatable }) => allocatable ?? []);
  if (machines.length === 0) return [];
  const largest = findLargestAmounts(machines);
  return [...findLargestAmounts(requests)]
    .map(([resource, requested]) => ({ resource, requested, largest: largest.get(resource) ?? 0 }))
    .filter((each) => each.requested > each.largest)
    .sort((one, other) => compareText(one.resource, other.resource))
    .slice(0, MAX_SHORT_RESOURCES);
}

function faultOf(obstacle: GrantObstacle, owner: Owner): Fault {
  if (obstacle.code === "POOLS_NOT_KNOWN_YET") return NOT_KNOWN_YET;
  if (obstacle.code === "CONCURRENCY_LIMIT") {
    const what = `number of granted reservations of kind ${owner.kind}`;
    return { code: "limit_exceeded", what, limit: obstacle.limit, retryAfterMs: CONCURRENCY_RETRY_AFTER_MS };
  }
  if ("queue" in obstacle) {
    const what = `quota of queue ${obstacle.queue} (${obstacle.code})`;
    return { code: "limit_exceeded", what, limit: 0, retryAfterMs: CONCURRENCY_RETRY_AFTER_MS };
  }
  const { pool, requested, available } = obstacle;
  return { code: "pool_availability", pool, requested, available };
}

function queueIsFull(limit: number): Fault {
  return { code: "limit_exceeded", what: "number of waiting reservations", limit, retryAfterMs: QUEUE_RETRY_AFTER_MS };
}
