import type { Owner } from "@muster/names";
import {
  comparePrecedence,
  buildRequestPrecedence,
  type RequestPrecedence,
  type OrderRule,
  type Precedence,
} from "./precedence.ts";
import { getForest } from "../ledger/queue-forest.ts";
import { listAcceptedPools } from "@muster/resources";
import { getReservation } from "../ledger/ledger.ts";
import type { Reservation } from "../ledger/reservation.ts";
import {
  compareQueuePositions,
  countAhead,
  getQueuePosition,
  findPlacesAround,
  type QueuePosition,
} from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";

/** A request that goes before another one, and the rule that decides it. */
export type RequestAhead = Pick<Precedence, "rule" | "compared"> & {
  readonly owner: Owner;
  readonly sequence: number;
  /** Absent: the request has no queue. */
  readonly queue?: string;
  readonly priority: number;
  readonly createdAtMs: number;
};

const RULES: readonly OrderRule[] = ["WEIGHT", "QUOTA", "SHARE", "PRIORITY", "AGE"];

/**
 * Lists the requests ahead of the reservation: those of its own queue, and the first of each other queue if it needs machines of the same pools. Visits each
 * queue with waiting requests, and at most `limit` requests of its own. Includes the request with the sequence `named` if it is ahead.
 */
export function listAhead(
  reservation: Reservation,
  world: World,
  { limit, named }: { readonly limit: number; readonly named?: number | undefined },
): { readonly listed: readonly RequestAhead[]; readonly more: number } {
  const { ledger } = world;
  const own = buildRequestPrecedence(reservation, world);
  const ofQueue = firstOf(findPlacesAround(reservation, ledger.queue).keys(), own.place, limit);
  const others = reservation.queue === undefined ? [] : listFirstOfOthers(reservation, world);
  const ofOthers = others.flatMap((place) => compareWith(place, own, world) ?? []);
  const all = [...ofQueue.flatMap((place) => compareWith(place, own, world) ?? []), ...ofOthers].sort(compareAhead);
  const listed = all.slice(0, limit);
  const isListed = named === undefined || listed.some(({ sequence }) => sequence === named);
  const missing = isListed ? undefined : compareWith(getQueuePosition(getReservation(ledger, named)), own, world);
  return {
    listed: missing === undefined ? listed : [missing, ...listed.slice(0, limit - 1)],
    more: countAhead(reservation, ledger.queue) + ofOthers.length - listed.length,
  };
}

function firstOf(places: Iterable<QueuePosition>, before: QueuePosition, limit: number): readonly QueuePosition[] {
  const first: QueuePosition[] = [];
  for (const place of places) {
    if (first.length === limit || compareQueuePositions(place, before) >= 0) return first;
    first.push(place);
  }
  return first;
}

function listFirstOfOthers({ queue, needs }: Reservation, { ledger }: World): readonly QueuePosition[] {
  const pools = new Set(needs.flatMap(listAcceptedPools));
  const forest = getForest(ledger.queues);
  const firsts = [...ledger.queue.byQueue.entries()].flatMap(([name, { heads }]) => {
    const first = name === queue || forest.get(name)?.problem !== undefined ? undefined : heads.first();
    return first === undefined ? [] : [first];
  });
  const withoutQueue = ledger.queue.heads.first();
  return [...firsts, ...(withoutQueue === undefined ? [] : [withoutQueue])]
    .filter(([, waiting]) => waiting.needs.some(({ pool }) => pools.has(pool)))
    .map(([place]) => place);
}

/** Returns undefined if the request at this place is behind `own`. */
function compareWith(place: QueuePosition, own: RequestPrecedence, world: World): RequestAhead | undefined {
  const other = getReservation(world.ledger, place.sequence);
  const { isBehind, rule, compared } = comparePrecedence(own, buildRequestPrecedence(other, world), world);
  if (!isBehind) return undefined;
  const { owner, sequence, queue, priority, createdAtMs } = other;
  const ofQueue = { ...(queue !== undefined && { queue }), ...(compared && { compared }) };
  return { owner, sequence, priority, createdAtMs, rule, ...ofQueue };
}

function compareAhead(a: RequestAhead, b: RequestAhead): number {
  return RULES.indexOf(a.rule) - RULES.indexOf(b.rule) || compareQueuePositions(a, b);
}
