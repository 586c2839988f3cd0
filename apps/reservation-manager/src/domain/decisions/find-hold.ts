import { canHoldAll } from "../ledger/can-hold.ts";
import type { Machines } from "../ledger/machines.ts";
import type { PoolGang, PoolNeed } from "../ledger/reservation.ts";
import { alternativesOf } from "../ledger/topology.ts";
import { comparePlaces, firstPlaceOf, type Place, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { admissibleTrees } from "./find-admissible.ts";
import { isAtLimit, mostAvailable, type Hold, type HoldPolicy } from "./fit.ts";

/**
 * The hold that is in force: of the requests that have waited longer than the bound, the oldest one of the highest priority; before it those for which a
 * nearer quota suffices. Requests that no free machine can help are skipped: those that their concurrency limit or their queue stops, and those that are larger
 * than their pool is at present and can become now.
 */
export function findHold(world: World, { holdAfterMs }: HoldPolicy, nowMs: number): Hold | undefined {
  const overdueSinceMs = nowMs - holdAfterMs;
  let first = findHoldWithoutQueue(world, overdueSinceMs);
  for (const { inOrder } of admissibleTrees(world))
    for (const { place, waiting, level } of inOrder) {
      if (first !== undefined && (level - first.level || comparePlaces(place, first.place)) > 0) break;
      if (place.createdAtMs >= overdueSinceMs) continue;
      const hold = holdFor(waiting, place, level, world);
      if (hold === undefined) continue;
      first = hold;
      break;
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
      const hold = holdFor(waiting, place, 0, world);
      if (hold !== undefined) return hold;
      head = heads.first({ ...place, sequence: place.sequence + 1 });
    }
  }
  return undefined;
}

function holdFor(waiting: WaitingClass, place: Place, level: number, world: World): Hold | undefined {
  const needs = isAtLimit(waiting, world) ? undefined : needsToHold(waiting, world.machines);
  return needs && { place, needs, queue: waiting.queue, level };
}

/**
 * Of what is possible, the needs that machines are kept for: in the domain where most of them fit now. What is kept there gets no younger work, so that it
 * stays the first choice while it fills.
 */
function needsToHold(waiting: PoolGang, machines: Machines): readonly PoolNeed[] | undefined {
  const possible = alternativesOf(waiting, machines).filter((needs) => canHoldAll(machines, needs));
  return possible.length < 2 ? possible[0] : mostAvailable(possible, machines, undefined)?.needs;
}
