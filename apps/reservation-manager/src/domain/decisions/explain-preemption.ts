import { findHolds } from "./find-hold.ts";
import { findVictims } from "./find-victims.ts";
import { demandOf, futureOf } from "./future.ts";
import { holderOf, type PreemptionOutlook } from "./explanation.ts";
import type { HoldPolicy } from "./fit.ts";
import { MAX_BENEFICIARIES, mayPreempt } from "./plan-preemptions.ts";
import { forestOf } from "../ledger/queue-forest.ts";
import { knownReservation } from "../ledger/ledger.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { placeOf } from "../ledger/waiting-queue.ts";
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
  const isFull = ledger.beneficiaries.length >= MAX_BENEFICIARIES;
  const limit = found.isLimited ? "MAX_VICTIMS" : isFull ? "MAX_BENEFICIARIES" : undefined;
  const victims = (found.victims ?? []).map(({ sequence, reason }) => {
    return { ...holderOf(knownReservation(ledger, sequence)), reason };
  });
  return { victims, againAtMs: found.againAtMs, limit };
}
