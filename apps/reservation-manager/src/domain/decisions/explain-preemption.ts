import { findHolds } from "./find-hold.ts";
import { findVictims, type Search } from "./find-victims.ts";
import { demandOf, futureOf } from "./future.ts";
import { holderOf, type PreemptionOutlook } from "./explanation.ts";
import type { HoldPolicy } from "./fit.ts";
import { isLeftOut, MAX_BENEFICIARIES, mayPreempt, type PreemptionLimit } from "./plan-preemptions.ts";
import { forestOf } from "../ledger/queue-forest.ts";
import { knownReservation } from "../ledger/ledger.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { placeOf, waitingClassOf } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";

/** Undefined: the queue of the request preempts nothing, or not all nodes are known. */
export function explainPreemption(
  reservation: Reservation,
  world: World,
  policy: HoldPolicy,
  nowMs: number,
): PreemptionOutlook | undefined {
  const { ledger, machines } = world;
  const node = reservation.queue === undefined ? undefined : forestOf(ledger.queues).get(reservation.queue);
  if (node === undefined || !mayPreempt(node.queue) || !machines.complete) return undefined;
  const future = futureOf(world).world;
  const holds = findHolds(future, policy, nowMs);
  const found = findVictims(demandOf(reservation), placeOf(reservation), { present: world, future, holds }, nowMs);
  const victims = (found.victims ?? []).map(({ sequence, reason }) => {
    return { ...holderOf(knownReservation(ledger, sequence)), reason };
  });
  return { victims, againAtMs: found.againAtMs, limit: findLimit(found, reservation, world, future) };
}

function findLimit(
  { isLimited, victims }: Search,
  reservation: Reservation,
  { ledger }: World,
  future: World,
): PreemptionLimit | undefined {
  if (isLimited) return "MAX_VICTIMS";
  if (ledger.beneficiaries.length >= MAX_BENEFICIARIES) return "MAX_BENEFICIARIES";
  const waiting = victims && waitingClassOf(future.ledger.queue, reservation);
  if (waiting === undefined || !isLeftOut(waiting, placeOf(reservation), future.ledger)) return undefined;
  return "MAX_FIRST_PLACES";
}
