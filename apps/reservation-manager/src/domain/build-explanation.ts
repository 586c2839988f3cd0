import { describeExplanation } from "./describe-explanation.ts";
import { explainWaiting, type WaitReason } from "./explain-waiting.ts";
import { findHold, type HoldPolicy } from "./fit.ts";
import { knownReservation, limitOf, type Ledger } from "./ledger.ts";
import { capacityOf, unusableNodes, type Machines, type UnusableNode } from "./machines.ts";
import { comparePlaces, firstPlaceOf, placeOf, type Place } from "./waiting-queue.ts";
import type { Owner } from "@muster/names";
import { countByPool, type PoolNeed, type Reservation } from "./reservation.ts";
import type { World } from "./world.ts";

/** At most so many of a list, and how many more there are. */
export type Bounded<Entry> = { readonly listed: readonly Entry[]; readonly more: number };

/** An owner who holds machines: so many of the pool that is spoken of, or of all pools. */
export type Holder = {
  readonly owner: Owner;
  readonly sequence: number;
  readonly machines: number;
  readonly sinceMs: number;
};

export type PoolExplanation = {
  readonly pool: string;
  readonly requested: number;
  /** Free machines, those that are kept for the hold included. */
  readonly available: number;
  /** Free machines that an older request's hold keeps from this reservation. */
  readonly kept: number;
  readonly capacity: number;
  readonly held: number;
  /** What the pool may be scaled to; undefined: it is not scaled. */
  readonly elasticMax: number | undefined;
  readonly unusable: Bounded<UnusableNode>;
  /** Who was granted machines of the pool, most machines first. */
  readonly holders: Bounded<Holder>;
};

/** Where a request stands in the queue; `byPriority` says the same highest priority first, `more` counts the requests of priorities that are left out. */
export type QueuePlace = {
  readonly ahead: number;
  readonly byPriority: readonly { readonly priority: number; readonly requests: number }[];
  readonly more: number;
};

/** The hold in force; `own` when it is the explained reservation's. */
export type HoldInForce = { readonly reservation: Reservation; readonly own: boolean };

export type ConcurrencyUse = {
  readonly limit: number;
  readonly granted: number;
  /** Earliest first. */
  readonly holders: Bounded<Holder>;
};

/** Why a reservation has what it has, in numbers of one moment. */
export type Explanation = {
  readonly reservation: Reservation;
  /** Undefined when nothing is waited for. */
  readonly because: WaitReason | undefined;
  readonly message: string;
  readonly pools: readonly PoolExplanation[];
  /** Undefined when it does not wait. */
  readonly place: QueuePlace | undefined;
  readonly hold: HoldInForce | undefined;
  /** Until then younger requests of its priority may overtake it; undefined when it does not wait. */
  readonly overtakenUntilMs: number | undefined;
  readonly concurrency: ConcurrencyUse | undefined;
};

/** Entries of each list of an explanation: enough to see who is in the way, and small enough for one message. */
const LISTED_MAX = 20;

/** Says why a reservation waits, and who has what it waits for. Looks at every machine, not at every request. */
export function buildExplanation(
  reservation: Reservation,
  world: World,
  policy: HoldPolicy,
  nowMs: number,
): Explanation {
  const { ledger, machines } = world;
  const hold = findHold(world, policy, nowMs);
  const because = explainWaiting(reservation, world, hold);
  const place = reservation.grant === undefined ? placeOf(reservation) : undefined;
  const keptFor = hold !== undefined && place !== undefined && comparePlaces(place, hold.place) > 0 ? hold : undefined;
  const granted = findGranted(ledger);
  const facts = {
    reservation,
    because,
    pools: countByPool(reservation.needs).map((need) => explainPool(need, machines, keptFor?.needs ?? [], granted)),
    place: place === undefined ? undefined : explainPlace(place, ledger),
    hold: hold && {
      reservation: knownReservation(ledger, hold.place.sequence),
      own: hold.place.sequence === reservation.sequence,
    },
    overtakenUntilMs: place === undefined ? undefined : reservation.createdAtMs + policy.holdAfterMs,
    concurrency: explainConcurrency(reservation, ledger, granted),
  };
  return { ...facts, message: describeExplanation(facts) };
}

/** The reservations that hold machines, found by the machines: there are far fewer than requests that wait. */
function findGranted(ledger: Ledger): readonly Reservation[] {
  const sequences = new Set(ledger.holders.values());
  return [...sequences].map((sequence) => knownReservation(ledger, sequence));
}

function explainPool(
  { pool, count: requested }: PoolNeed,
  machines: Machines,
  keptNeeds: readonly PoolNeed[],
  granted: readonly Reservation[],
): PoolExplanation {
  const state = machines.pools.get(pool);
  const available = state?.free.size ?? 0;
  const kept = keptNeeds.find((need) => need.pool === pool)?.count ?? 0;
  const holders = granted
    .map((holder) => holderOf(holder, (machine) => machine.pool === pool))
    .filter((holder) => holder.machines > 0)
    .sort((a, b) => b.machines - a.machines || byAge(a, b));
  return {
    pool,
    requested,
    available,
    kept: Math.min(available, kept),
    capacity: state === undefined ? 0 : capacityOf(state),
    held: state?.held ?? 0,
    elasticMax: state?.scaling?.max,
    unusable: bounded([...unusableNodes(machines, pool)]),
    holders: bounded(holders),
  };
}

/** Priorities are walked from one to the next that waits, so the cost is that of the priorities and not of the requests. */
function explainPlace(place: Place, { queue }: Ledger): QueuePlace {
  const { places } = queue;
  const ahead = places.rank(place);
  const byPriority: { priority: number; requests: number }[] = [];
  let counted = 0;
  for (let first = places.first(); counted < ahead && first !== undefined && byPriority.length < LISTED_MAX;) {
    const { priority } = first[0];
    const below = firstPlaceOf(priority - 1);
    const until = Math.min(ahead, places.rank(below));
    byPriority.push({ priority, requests: until - counted });
    counted = until;
    first = places.first(below);
  }
  return { ahead, byPriority, more: ahead - counted };
}

function explainConcurrency(
  { owner }: Reservation,
  ledger: Ledger,
  granted: readonly Reservation[],
): ConcurrencyUse | undefined {
  const limit = limitOf(ledger, owner.kind);
  if (limit === 0) return undefined;
  const holders = granted
    .filter((holder) => holder.owner.kind === owner.kind)
    .map((holder) => holderOf(holder, () => true))
    .sort(byAge);
  return { limit, granted: ledger.grantedByKind.get(owner.kind) ?? 0, holders: bounded(holders) };
}

function holderOf({ owner, sequence, grant }: Reservation, counts: (machine: { pool: string }) => boolean): Holder {
  return { owner, sequence, machines: grant?.machines.filter(counts).length ?? 0, sinceMs: grant?.atMs ?? 0 };
}

function byAge(a: Holder, b: Holder): number {
  return a.sinceMs - b.sinceMs || a.sequence - b.sequence;
}

function bounded<Entry>(entries: readonly Entry[]): Bounded<Entry> {
  return { listed: entries.slice(0, LISTED_MAX), more: Math.max(0, entries.length - LISTED_MAX) };
}
