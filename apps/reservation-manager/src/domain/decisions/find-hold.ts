import { canHoldAll } from "../ledger/can-hold.ts";
import type { Machines } from "../ledger/machines.ts";
import type { PoolGang, PoolNeed } from "../ledger/reservation.ts";
import { listAlternatives } from "../ledger/topology.ts";
import {
  getClassOfOption,
  compareQueuePositions,
  findFirstPlace,
  listRequestOptions,
  getPlaceAfter,
  type QueuePosition,
  type WaitingClass,
} from "../ledger/waiting-queue.ts";
import { getReservation } from "../ledger/ledger.ts";
import type { World } from "../ledger/world.ts";
import type { WaitingTree, WaitingTrees } from "../ledger/waiting-trees.ts";
import { getForest } from "../ledger/queue-forest.ts";
import type { Summaries } from "../ledger/sorted-map.ts";
import { findHeldQuota, findQueueObstacle, computeDemandLevel, type QuotaHolds } from "./find-queue-obstacle.ts";
import { isAtLimit, countMostAvailable, type MachineHold, type HoldPolicy, type OverdueHolds } from "./fit.ts";
import { buildHeadSummaries } from "./head-summaries.ts";
import {
  findBestRank,
  computeFreeForRequests,
  isShort,
  mayAdmit,
  buildTreeSummaries,
  type AdmittedBounds,
  type HeldQuota,
  type TreeBounds,
} from "./queue-bounds.ts";

export function findHolds(world: World, policy: HoldPolicy, nowMs: number): OverdueHolds {
  const overdueSinceMs = nowMs - policy.holdAfterMs;
  const search = { world, overdueSinceMs, trees: buildTreeSummaries(world, overdueSinceMs) };
  const quotas: QuotaHolds = (queue) => findQuotaHold(queue, search);
  return { machines: findMachineHold({ ...search, quotas }), quotas, overdueSinceMs };
}

export function findHold(world: World, policy: HoldPolicy, nowMs: number): MachineHold | undefined {
  return findHolds(world, policy, nowMs).machines;
}

type QuotaSearch = {
  readonly world: World;
  readonly overdueSinceMs: number;
  readonly trees: Summaries<WaitingTree, TreeBounds>;
};

type HoldSearch = QuotaSearch & { readonly quotas: QuotaHolds };

function findQuotaHold(queue: string, { world, trees }: QuotaSearch): HeldQuota | undefined {
  let tree: WaitingTree | undefined;
  for (const { queue: each } of getForest(world.ledger.queues).get(queue)?.pathFromRoot ?? [])
    tree = (tree?.children ?? world.ledger.trees).get(each.name);
  return tree?.node.queue.name === queue ? trees.of(tree)?.held : undefined;
}

/**
 * Finds the hold in force: for the oldest overdue request of the highest priority. Requests that do not borrow come before borrowers. Skips requests that free
 * machines cannot help: requests that their concurrency limit or queue stops, and requests that exceed the size that their pool has or can reach now.
 */
function findMachineHold(search: HoldSearch): MachineHold | undefined {
  const { world, overdueSinceMs } = search;
  const first = findHoldWithoutQueue(world, overdueSinceMs);
  return findHoldInTrees(search, world.ledger.trees, () => true, first);
}

/** Returns the first request of these trees in the order of holds (`compareHolds`). */
function findHoldInTrees(
  search: HoldSearch,
  trees: WaitingTrees,
  isAdmitted: (admitted: AdmittedBounds) => boolean,
  before: MachineHold | undefined,
): MachineHold | undefined {
  let first = before;
  const orderIfFirst = (admitted: AdmittedBounds): HoldOrder | undefined => {
    const order = { place: admitted.first, isBorrowing: !admitted.isOwner };
    const mayBeFirst = admitted.oldestMs < search.overdueSinceMs && isBefore(order, first);
    return mayBeFirst && isAdmitted(admitted) ? order : undefined;
  };
  for (const [, tree] of trees.searchBest(
    search.trees,
    (bounds) => findBestRank(bounds, orderIfFirst, compareHolds),
    compareHolds,
  ))
    first =
      tree.node.children.length === 0
        ? findHoldInQueue(search, tree, first)
        : findHoldInTrees(search, tree.children, mayAdmit(tree.node, search.world), first);
  return first;
}

function findHoldInQueue(
  { world, overdueSinceMs, quotas }: HoldSearch,
  { node, requests }: WaitingTree,
  before: MachineHold | undefined,
): MachineHold | undefined {
  const free = computeFreeForRequests(node, world);
  const isStopped = (waiting: WaitingClass, place: QueuePosition): boolean =>
    findQueueObstacle(waiting, place, world) !== undefined ||
    findHeldQuota(waiting, place, world, quotas) !== undefined;
  let first = before;
  for (const [place, waiting] of requests?.heads.search(
    buildHeadSummaries(world),
    (bounds) =>
      bounds.oldestMs < overdueSinceMs &&
      isBefore({ place: bounds.first, isBorrowing: false }, first) &&
      !isShort(bounds.needed, free),
  ) ?? []) {
    const isBorrowing = computeDemandLevel(waiting, place, world) > 0;
    if (!isBefore({ place, isBorrowing }, first) || isStopped(waiting, place)) continue;
    const isAlike = (other: WaitingClass, at: QueuePosition): boolean =>
      computeDemandLevel(other, at, world) > 0 === isBorrowing && !isStopped(other, at);
    first = holdFor({ waiting, place, isBorrowing }, isAlike, world) ?? first;
  }
  return first;
}

function isBefore(a: HoldOrder, b: HoldOrder | undefined): boolean {
  return b === undefined || compareHolds(a, b) < 0;
}

type HoldOrder = Pick<MachineHold, "place" | "isBorrowing">;

function compareHolds(a: HoldOrder, b: HoldOrder): number {
  return Number(a.isBorrowing) - Number(b.isBorrowing) || compareQueuePositions(a.place, b.place);
}

function findHoldWithoutQueue(world: World, overdueSinceMs: number): MachineHold | undefined {
  const { heads } = world.ledger.queue;
  for (let head = heads.first(); head !== undefined;) {
    const [place, waiting] = head;
    if (place.createdAtMs >= overdueSinceMs) {
      // This head is not overdue, and the later requests of its priority are younger: continue with the next lower priority.
      head = heads.first(findFirstPlace(place.priority - 1));
    } else {
      const hold = holdFor({ waiting, place, isBorrowing: false }, () => true, world);
      if (hold !== undefined) return hold;
      head = heads.first(getPlaceAfter(place));
    }
  }
  return undefined;
}

/** `isAlike`: whether machines may be kept for another option of the request as well. */
function holdFor(
  { waiting, place, isBorrowing }: HoldOrder & { readonly waiting: WaitingClass },
  isAlike: (other: WaitingClass, at: QueuePosition) => boolean,
  world: World,
): MachineHold | undefined {
  if (isAtLimit(waiting, world)) return undefined;
  const gangs = place.option === undefined ? [waiting] : listSimilarNeeds(place, isAlike, world);
  const needs = selectNeedsToHold(gangs, world.machines);
  return needs && { place, needs, queue: waiting.queue, isBorrowing };
}

function listSimilarNeeds(
  { sequence }: QueuePosition,
  isAlike: (other: WaitingClass, at: QueuePosition) => boolean,
  { ledger }: World,
): readonly PoolGang[] {
  const reservation = getReservation(ledger, sequence);
  return listRequestOptions(reservation).flatMap(({ place }) => {
    const waiting = getClassOfOption(ledger.queue, reservation, place);
    return isAlike(waiting, place) ? [waiting] : [];
  });
}

/**
 * Selects the needs to keep machines for: of the possible lists, the one whose pools and domain fit the most needs now. Younger work gets no kept machine, so
 * this list stays first while its machines become free.
 */
function selectNeedsToHold(gangs: readonly PoolGang[], machines: Machines): readonly PoolNeed[] | undefined {
  const possible = gangs
    .flatMap((gang) => listAlternatives(gang, machines))
    .filter((needs) => canHoldAll(machines, needs));
  return possible.length < 2 ? possible[0] : countMostAvailable(possible, machines, undefined)?.needs;
}
