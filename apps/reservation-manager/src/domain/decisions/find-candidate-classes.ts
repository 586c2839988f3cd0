import { canFitBehindHolds, findObstacle, type OverdueHolds } from "./fit.ts";
import { withoutHeldMinima } from "../ledger/held-minima.ts";
import { SortedMap } from "../ledger/sorted-map.ts";
import { findRoom, type Machines } from "../ledger/machines.ts";
import type { PoolGang, PoolNeed } from "../ledger/reservation.ts";
import { emptyRoom, mayHaveRoom } from "../ledger/room.ts";
import {
  compareQueuePositions,
  listGroups,
  type QueuePosition,
  type RequestShape,
  type WaitingClass,
} from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";

/** Finds the classes without a queue whose first request has no obstacle, by the place of that request. */
export function findCandidateClasses(world: World, holds: OverdueHolds): SortedMap<QueuePosition, WaitingClass> {
  const hold = holds.machines;
  let candidates = SortedMap.empty<QueuePosition, WaitingClass>(compareQueuePositions);
  for (const shape of findShapes(world)) {
    const fitsBehindHold = canFitBehindHolds(shape, world.machines, hold);
    for (const waiting of shape.classes.values()) {
      if (!fitsBehindHold && hold?.queue === undefined && waiting.priority < (hold?.place.priority ?? -Infinity)) break;
      const head = waiting.places.first();
      if (head !== undefined && findObstacle(waiting, head[0], world, holds) === undefined)
        candidates = candidates.set(head[0], waiting);
    }
  }
  return candidates;
}

/** Yields the shapes for which enough machines are free, including kept ones. Room for their parts may still be missing. */
function* findShapes({ ledger, machines }: World): Generator<RequestShape> {
  for (const { name, free, partial, cordoned } of machines.pools.values()) {
    if (free.size === 0 && partial.size === 0 && cordoned === 0) continue;
    for (const { pools, hasViews, shapes, shapesWithParts } of listGroups(ledger.queue, name)) {
      if (hasViews) {
        yield* [...shapes.values()].filter((shape) => mayFit(shape, machines));
        continue;
      }
      const available = pools.map((pool) => machines.pools.get(pool)?.free.size ?? 0);
      if (shapesWithParts === 0 && available.includes(0)) continue;
      for (const [{ counts }, shape] of shapes.entries()) {
        if ((counts[0] ?? 0) > free.size) break;
        if (isAnyShort(pools, counts, available)) continue;
        if (shapesWithParts === 0 || mayFit(shape, machines)) yield shape;
      }
    }
  }
}

/** Whether any pool has fewer available machines than needed. Needs of one pool are adjacent. */
function isAnyShort(pools: readonly string[], counts: readonly number[], available: readonly number[]): boolean {
  let needed = 0;
  return counts.some((count, index) => {
    needed = index > 0 && pools[index] === pools[index - 1] ? needed + count : count;
    return needed > (available[index] ?? 0);
  });
}

function mayFit(shape: PoolGang, machines: Machines): boolean {
  const mayHold = (need: PoolNeed): boolean => mayHaveRoom(findRoom(machines, need) ?? emptyRoom, need);
  return withoutHeldMinima(shape.needs, machines).every(mayHold) && canFitBehindHolds(shape, machines, undefined);
}
