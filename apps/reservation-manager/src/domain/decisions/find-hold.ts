import { canHoldAll } from "../ledger/can-hold.ts";
import type { Machines } from "../ledger/machines.ts";
import type { PoolGang, PoolNeed } from "../ledger/reservation.ts";
import { alternativesOf } from "../ledger/topology.ts";
import { firstPlaceOf, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { findQueueObstacle } from "./find-queue-obstacle.ts";
import { levelOfDemand } from "./first-in-order.ts";
import { isAtLimit, mostAvailable, type Hold, type HoldPolicy } from "./fit.ts";

/**
 * The hold that is in force: of the requests that have waited longer than the bound, the oldest one of the highest priority; before it those for which a
 * nearer quota suffices. Requests that no free machine can help are skipped: those that their concurrency limit or their queue stops, and those that are larger
 * than their pool is at present and can become now.
 */
export function findHold(world: World, { holdAfterMs }: HoldPolicy, nowMs: number): Hold | undefined {
  const { heads } = world.ledger.queue;
  let first: Hold | undefined;
  for (let head = heads.first(); head !== undefined;) {
    const [place, waiting] = head;
    if (nowMs - place.createdAtMs <= holdAfterMs) {
      // The head is the oldest of its priority or comes after it, so nothing of this priority has waited longer.
      head = heads.first(firstPlaceOf(place.priority - 1));
    } else {
      const hold = holdFor(waiting, place, world);
      if (hold?.level === 0) return hold;
      if (hold !== undefined && (first === undefined || hold.level < first.level)) first = hold;
      head = heads.first({ ...place, sequence: place.sequence + 1 });
    }
  }
  return first;
}

function holdFor(waiting: WaitingClass, place: Hold["place"], world: World): Hold | undefined {
  if (isAtLimit(waiting, world) || findQueueObstacle(waiting, place, world) !== undefined) return undefined;
  const needs = needsToHold(waiting, world.machines);
  return needs && { place, needs, queue: waiting.queue, level: levelOfDemand(waiting, world) };
}

/**
 * Of what is possible, the needs that machines are kept for: in the domain where most of them fit now. What is kept there gets no younger work, so that it
 * stays the first choice while it fills.
 */
function needsToHold(waiting: PoolGang, machines: Machines): readonly PoolNeed[] | undefined {
  const possible = alternativesOf(waiting, machines).filter((needs) => canHoldAll(machines, needs));
  return possible.length < 2 ? possible[0] : mostAvailable(possible, machines, undefined)?.needs;
}
