import { obstacleTo, type Hold } from "./fit.ts";
import type { PoolNeed } from "../ledger/reservation.ts";
import { SortedMap } from "../ledger/sorted-map.ts";
import { comparePlaces, groupsOf, type Place, type Shape, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";

/** The classes whose first request nothing stands in the way of, by the place of that request. */
export function findCandidateClasses(world: World, hold: Hold | undefined): SortedMap<Place, WaitingClass> {
  let candidates = SortedMap.empty<Place, WaitingClass>(comparePlaces);
  for (const shape of findShapes(world)) {
    const fitsBehindHold = fitsBehind(shape.needs, world, hold);
    for (const waiting of shape.classes.values()) {
      if (hold !== undefined && !fitsBehindHold && waiting.priority < hold.place.priority) break;
      const head = waiting.places.first();
      if (head !== undefined && obstacleTo(waiting, head[0], world, hold) === undefined)
        candidates = candidates.set(head[0], waiting);
    }
  }
  return candidates;
}

/** The shapes for which there are enough free machines, kept ones included. */
function* findShapes({ ledger, machines }: World): Generator<Shape> {
  for (const { name, free } of machines.pools.values()) {
    if (free.size === 0) continue;
    for (const { pools, shapes } of groupsOf(ledger.queue, name)) {
      const available = pools.map((pool) => machines.pools.get(pool)?.free.size ?? 0);
      if (available.includes(0)) continue;
      for (const [counts, shape] of shapes.entries()) {
        if ((counts[0] ?? 0) > free.size) break;
        if (counts.every((count, index) => count <= (available[index] ?? 0))) yield shape;
      }
    }
  }
}

function fitsBehind(needs: readonly PoolNeed[], { machines }: World, hold: Hold | undefined): boolean {
  return needs.every(({ pool, count }) => {
    const kept = hold?.needs.find((need) => need.pool === pool)?.count ?? 0;
    return count <= (machines.pools.get(pool)?.free.size ?? 0) - kept;
  });
}
