import { describeNodeSelection } from "@muster/resources";
import { describeExplanation } from "./describe-explanation.ts";
import { explainWaiting } from "./explain-waiting.ts";
import {
  buildHolder,
  type TruncatedList,
  type ConcurrencyUse,
  type Explanation,
  type Holder,
  type PoolExplanation,
  type QueuePlace,
  type Victim,
} from "./explanation.ts";
import { listAhead } from "./explain-order.ts";
import { explainParts } from "./explain-parts.ts";
import { explainPreemption } from "./explain-preemption.ts";
import { findHolds } from "./find-hold.ts";
import { findHoldAhead, getRoomBehindHolds, type MachineHold, type HoldPolicy } from "./fit.ts";
import { chooseReported, listOptions } from "./choose-option.ts";
import { getReservation, limitOf, type Ledger } from "../ledger/ledger.ts";
import { withoutHeldMinima } from "../ledger/held-minima.ts";
import { countCapacity, findUnusable, findRoom, type Machines } from "../ledger/machines.ts";
import { summariseAccepted } from "./summarise-pools.ts";
import {
  findFirstPlace,
  getQueuePosition,
  findPlacesAround,
  type QueuePosition,
  type WaitingQueue,
} from "../ledger/waiting-queue.ts";
import { countMachines, buildViewKey, type PoolNeed, type Reservation } from "../ledger/reservation.ts";
import type { World } from "../ledger/world.ts";

/** Limit of entries per list: enough to show the cause, and small enough for one message. */
const MAX_LISTED = 20;

/** Explains why a reservation waits, and who holds the machines that it waits for. Its cost grows with machines, not with requests. */
export function buildExplanation(
  reservation: Reservation,
  world: World,
  policy: HoldPolicy,
  nowMs: number,
): Explanation {
  const { ledger, machines } = world;
  const holds = findHolds(world, policy, nowMs);
  const hold = holds.machines;
  const because = explainWaiting(reservation, world, holds);
  const place = reservation.grant === undefined ? getQueuePosition(reservation) : undefined;
  const options = listOptions(reservation);
  const keptFor = place && findHoldAhead(chooseReported(options, world).demand, place, world, hold);
  const needs = uniqueViews(options.flatMap(({ demand }) => demand.needs));
  const granted = findGranted(ledger);
  const facts = {
    reservation,
    because,
    pools: withoutHeldMinima(needs, machines).map((need) => explainPool(need, machines, keptFor, granted)),
    place: place === undefined ? undefined : explainPlace(place, findPlacesAround(reservation, ledger.queue)),
    hold: hold && {
      reservation: getReservation(ledger, hold.place.sequence),
      own: hold.place.sequence === reservation.sequence,
    },
    overtakenUntilMs: place === undefined ? undefined : reservation.createdAtMs + policy.holdAfterMs,
    concurrency: explainConcurrency(reservation, ledger, granted),
    preempted: listPreempted(reservation, ledger),
    requestsAhead: place && listAhead(reservation, world, { limit: MAX_LISTED, named: because?.behind }),
    preemption: explainOutlook(reservation, world, policy, nowMs),
  };
  return { ...facts, message: describeExplanation(facts) };
}

/** Keeps the first need of each view, because several options may contain the same view. */
function uniqueViews(needs: readonly PoolNeed[]): readonly PoolNeed[] {
  const byView = new Map<string, PoolNeed>();
  for (const need of needs) if (!byView.has(buildViewKey(need))) byView.set(buildViewKey(need), need);
  return [...byView.values()];
}

function explainOutlook(
  reservation: Reservation,
  world: World,
  policy: HoldPolicy,
  nowMs: number,
): Explanation["preemption"] {
  if (reservation.grant !== undefined) return undefined;
  const outlook = explainPreemption(reservation, world, policy, nowMs);
  return outlook && { ...outlook, victims: bounded(outlook.victims) };
}

function listPreempted({ sequence }: Reservation, ledger: Ledger): TruncatedList<Victim> {
  const preempted = [...ledger.leaving.keys()].flatMap((leaving): Victim[] => {
    const reservation = getReservation(ledger, leaving);
    const { beneficiary, reason } = reservation.grant?.preemption ?? {};
    return beneficiary === sequence && reason !== undefined ? [{ ...buildHolder(reservation), reason }] : [];
  });
  return bounded(preempted);
}

/** Finds granted reservations through the machines, because machines are far fewer than waiting requests. */
function findGranted(ledger: Ledger): readonly Reservation[] {
  const sequences = new Set(ledger.holders.values());
  for (const parts of ledger.parts.values()) for (const { sequence } of parts) sequences.add(sequence);
  return [...sequences].map((sequence) => getReservation(ledger, sequence));
}

function explainPool(
  need: PoolNeed,
  machines: Machines,
  keptFor: MachineHold | undefined,
  granted: readonly Reservation[],
): PoolExplanation {
  const { pool } = need;
  const state = findRoom(machines, need);
  const available = state?.free.size ?? 0;
  const kept = available - getRoomBehindHolds(need, machines, keptFor).free.size;
  const holders = granted
    .map((holder) => buildHolder(holder, pool))
    .filter((holder) => holder.machines > 0)
    .sort((a, b) => b.machines - a.machines || byAge(a, b));
  return {
    pool,
    ...(need.selection && { nodes: describeNodeSelection(need.selection) }),
    requested: countMachines(need),
    parts:
      need.shared.length === 0 ? undefined : bounded(explainParts(need, getRoomBehindHolds(need, machines, keptFor))),
    amounts: need.shared.length === 0 ? undefined : summariseAccepted(machines, need),
    available,
    kept,
    capacity: state === undefined ? 0 : countCapacity(state),
    held: state === undefined ? 0 : state.held + state.shared,
    elasticMax: state?.scaling?.max,
    unusable: bounded([...findUnusable(machines, pool, need.selection)]),
    holders: bounded(holders),
  };
}

/** Visits each waiting priority once, so the cost grows with the priorities and not with the requests. */
function explainPlace(place: QueuePosition, places: WaitingQueue["places"]): QueuePlace {
  const ahead = places.rank(place);
  const byPriority: { priority: number; requests: number }[] = [];
  let counted = 0;
  for (let first = places.first(); counted < ahead && first !== undefined && byPriority.length < MAX_LISTED;) {
    const { priority } = first[0];
    const below = findFirstPlace(priority - 1);
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
    .map((holder) => buildHolder(holder))
    .sort(byAge);
  return { limit, granted: ledger.grantedByKind.get(owner.kind) ?? 0, holders: bounded(holders) };
}

function byAge(a: Holder, b: Holder): number {
  return a.sinceMs - b.sinceMs || a.sequence - b.sequence;
}

function bounded<Entry>(entries: readonly Entry[]): TruncatedList<Entry> {
  return { listed: entries.slice(0, MAX_LISTED), more: Math.max(0, entries.length - MAX_LISTED) };
}
