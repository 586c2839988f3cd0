import { countFreeReservations } from "../ledger/ledger.ts";
import type { PairAmounts } from "../ledger/queue.ts";
import type { Summaries } from "../ledger/sorted-map.ts";
import { compareQueuePositions, type QueuePosition, type WaitingClass } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";
import { sumRequestedAmounts } from "./sum-requested-amounts.ts";

/** Lower bounds over several requests, without requests at their concurrency limit. */
export type RequestBounds = {
  /** By pair, the minimum quota that any of the requests needs. Omits pairs that some requests lack. */
  readonly needed: PairAmounts;
  readonly first: QueuePosition;
  readonly oldestMs: number;
};

const MAX_KNOWN = 16;

/** Caches results while the nodes (`sizesMark`) and the set of owner kinds at their concurrency limit stay the same. */
export function cacheByLimits<Known>(create: () => Known): (world: World) => Known {
  const byMark = new WeakMap<object, Map<string, Known>>();
  return ({ ledger, machines }) => {
    const atLimit = [...ledger.limits.keys()].filter((kind) => countFreeReservations(kind, ledger) === 0).join(" ");
    const byLimits = byMark.get(machines.sizesMark) ?? new Map<string, Known>();
    byMark.set(machines.sizesMark, byLimits);
    const same = byLimits.get(atLimit);
    if (same !== undefined) return same;
    if (byLimits.size >= MAX_KNOWN) byLimits.clear();
    const known = create();
    byLimits.set(atLimit, known);
    return known;
  };
}

type KnownHeads = {
  readonly ofClass: WeakMap<WaitingClass, RequestBounds>;
  readonly heads: Summaries<WaitingClass, RequestBounds>["known"];
};

const knownOf = cacheByLimits<KnownHeads>(() => ({ ofClass: new WeakMap(), heads: new WeakMap() }));

/** Summarises the heads of a queue as bounds. */
export function buildHeadSummaries(world: World): Summaries<WaitingClass, RequestBounds> {
  const { ofClass, heads } = knownOf(world);
  const of = (waiting: WaitingClass): RequestBounds | undefined => {
    if (countFreeReservations(waiting.ownerKind, world.ledger) === 0) return undefined;
    const bounds = ofClass.get(waiting) ?? boundsOfClass(waiting, world);
    ofClass.set(waiting, bounds);
    return bounds;
  };
  return { of, merge: mergeBounds, isCurrent: () => true, known: heads };
}

function boundsOfClass({ needs, places }: WaitingClass, { machines }: World): RequestBounds {
  const first = places.first()?.[0];
  if (first === undefined) throw new Error("a class without requests waits");
  return { needed: sumRequestedAmounts(needs, machines).amounts, first, oldestMs: first.createdAtMs };
}

export function mergeBounds(a: RequestBounds, b: RequestBounds): RequestBounds {
  return {
    needed: minOfBoth(a.needed, b.needed),
    first: compareQueuePositions(a.first, b.first) <= 0 ? a.first : b.first,
    oldestMs: Math.min(a.oldestMs, b.oldestMs),
  };
}

export function minOfBoth(a: PairAmounts, b: PairAmounts): PairAmounts {
  if (a === b) return a;
  const min = new Map<string, number>();
  for (const [pair, amount] of a) {
    const other = b.get(pair);
    if (other !== undefined) min.set(pair, Math.min(amount, other));
  }
  return min;
}
