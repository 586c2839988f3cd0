import { findHolds } from "./find-hold.ts";
import { chooseReported, listOptions, type Option } from "./choose-option.ts";
import { findVictims, rankOf } from "./find-victims.ts";
import { futureOf } from "./future.ts";
import { holderOf, type PreemptionOutlook } from "./explanation.ts";
import type { HoldPolicy } from "./fit.ts";
import { MAX_BENEFICIARIES, mayPreempt } from "./plan-preemptions.ts";
import { forestOf } from "../ledger/queue-forest.ts";
import { knownReservation } from "../ledger/ledger.ts";
import type { Reservation } from "../ledger/reservation.ts";
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
  const options = listOptions(reservation);
  const search = ({ demand, place }: Option) => findVictims(demand, place, { present: world, future, holds }, nowMs);
  const [best] = options
    .map(search)
    .flatMap(({ victims, ...more }) => (victims === undefined ? [] : [{ victims, ...more }]))
    .sort((a, b) => rankOf(a.victims) - rankOf(b.victims));
  const found = best ?? search(chooseReported(options, world));
  const isFull = ledger.beneficiaries.length >= MAX_BENEFICIARIES;
  const limit = found.isLimited ? "MAX_VICTIMS" : isFull ? "MAX_BENEFICIARIES" : undefined;
  const victims = (found.victims ?? []).map(({ sequence, reason }) => {
    return { ...holderOf(knownReservation(ledger, sequence)), reason };
  });
  return { victims, againAtMs: found.againAtMs, limit };
}
