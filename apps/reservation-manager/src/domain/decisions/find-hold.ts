import { canHoldAll } from "../ledger/can-hold.ts";
import type { Machines } from "../ledger/machines.ts";
import type { PoolGang, PoolNeed } from "../ledger/reservation.ts";
import { alternativesOf } from "../ledger/topology.ts";
import { comparePlaces, firstPlaceOf, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { admissibleTrees, ownedClasses } from "./find-admissible.ts";
import { findHeldQuota, isPossible, type QuotaHolds } from "./find-queue-obstacle.ts";
import { isAtLimit, mostAvailable, type Hold, type HoldPolicy, type Holds } from "./fit.ts";

export function findHolds(world: World, policy: HoldPolicy, nowMs: number): Holds {
  const quotas = findQuotaHolds(world, nowMs - policy.holdAfterMs);
  return { machines: findMachineHold(world, nowMs - policy.holdAfterMs, quotas), quotas };
}

export function findHold(world: World, policy: HoldPolicy, nowMs: number): Hold | undefined {
  return findHolds(world, policy, nowMs).machines;
}

/** Found when asked for: most decisions ask for few queues. */
function findQuotaHolds(world: World, overdueSinceMs: number): QuotaHolds {
  return (queue) =>
    ownedClasses(queue, world).find(
      ({ place, waiting }) =>
        place.createdAtMs < overdueSinceMs && !isAtLimit(waiting, world) && isPossible(waiting, world.machines),
    );
}

/**
 * The hold that is in force: of the requests that have waited longer than the bound, the oldest one of the highest priority; before it those that do not
 * borrow. Requests that no free machine can help are skipped: those that their concurrency limit or their queue stops, and those that are larger than their
 * pool is at present and can become now.
 */
function findMachineHold(world: World, overdueSinceMs: number, quotas: QuotaHolds): Hold | undefined {
  let first = findHoldWithoutQueue(world, overdueSinceMs);
  for (const { inOrder } of admissibleTrees(world))
    for (const { place, waiting, level } of inOrder) {
      const isBorrowing = level > 0;
      const order = first && (Number(isBorrowing) - Number(first.isBorrowing) || comparePlaces(place, first.place));
      if (order !== undefined && order > 0) {
        // Those that do not borrow are in their order; the others come after them, by their levels.
        if (isBorrowing && first?.isBorrowing === true) continue;
        break;
      }
      if (place.createdAtMs >= overdueSinceMs) continue;
      if (findHeldQuota(waiting, place, world, quotas) !== undefined) continue;
      first = holdFor(waiting, place, isBorrowing, world) ?? first;
    }
  return first;
}

function findHoldWithoutQueue(world: World, overdueSinceMs: number): Hold | undefined {
  const { heads } = world.ledger.queue;
  for (let head = heads.first(); head !== undefined;) {
    const [place, waiting] = head;
    if (place.createdAtMs >= overdueSinceMs) {
      // The head is the oldest of its priority or comes after it, so nothing of this priority has waited longer.
      head = heads.first(firstPlaceOf(place.priority - 1));
    } else {
      const hold = holdFor(waiting, place, false, world);
      if (hold !== undefined) return hold;
      head = heads.first({ ...place, sequence: place.sequence + 1 });
    }
  }
  return undefined;
}

function holdFor(waiting: WaitingClass, place: Place, isBorrowing: boolean, world: World): Hold | undefined {
  const needs = isAtLimit(waiting, world) ? undefined : needsToHold(waiting, world.machines);
  return needs && { place, needs, queue: waiting.queue, isBorrowing };
}

/**
 * Of what is possible, the needs that machines are kept for: in the domain where most of them fit now. What is kept there gets no younger work, so that it
 * stays the first choice while it fills.
 */
function needsToHold(waiting: PoolGang, machines: Machines): readonly PoolNeed[] | undefined {
  const possible = alternativesOf(waiting, machines).filter((needs) => canHoldAll(machines, needs));
  return possible.length < 2 ? possible[0] : mostAvailable(possible, machines, undefined)?.needs;
}
