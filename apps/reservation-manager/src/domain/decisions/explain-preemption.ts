import { findHolds } from "./find-hold.ts";
import { chooseReported, listOptions, type Option } from "./choose-option.ts";
import { findVictims, computeVictimRank, type VictimSearch, type SearchWorlds } from "./find-victims.ts";
import { buildFutureWorld } from "./future.ts";
import { buildHolder, type PreemptionOutlook } from "./explanation.ts";
import type { HoldPolicy } from "./fit.ts";
import { isPlaceExcluded, MAX_BENEFICIARIES, mayPreempt, type PreemptionLimit } from "./plan-preemptions.ts";
import { getForest } from "../ledger/queue-forest.ts";
import { getReservation } from "../ledger/ledger.ts";
import type { Reservation } from "../ledger/reservation.ts";
import { findClassOfOption } from "../ledger/waiting-queue.ts";
import type { World } from "../ledger/world.ts";

/** Returns undefined if the queue of the request preempts nothing, or not all nodes are known. */
export function explainPreemption(
  reservation: Reservation,
  world: World,
  policy: HoldPolicy,
  nowMs: number,
): PreemptionOutlook | undefined {
  const { ledger, machines } = world;
  const node = reservation.queue === undefined ? undefined : getForest(ledger.queues).get(reservation.queue);
  if (node === undefined || !mayPreempt(node.queue) || !machines.complete) return undefined;
  const future = buildFutureWorld(world).world;
  const holds = findHolds(future, policy, nowMs);
  const found = searchOptions(reservation, { present: world, future, holds }, nowMs);
  const victims = (found.victims ?? []).map(({ sequence, reason }) => {
    return { ...buildHolder(getReservation(ledger, sequence)), reason };
  });
  return { victims, againAtMs: found.againAtMs, limit: findLimit(found, world) };
}

type Found = VictimSearch & Pick<Option, "demand"> & { readonly isExcluded: boolean };

/** Returns the best option with victims. If no option has victims, returns the option that explains the wait. */
function searchOptions(reservation: Reservation, worlds: SearchWorlds, nowMs: number): Found {
  const { present, future } = worlds;
  const search = ({ demand, place }: Option): Found => {
    const found = findVictims(demand, place, worlds, nowMs);
    const waiting = found.victims && findClassOfOption(future.ledger.queue, reservation, place);
    const isExcluded = waiting !== undefined && isPlaceExcluded(waiting, place, future.ledger);
    return { ...found, demand, isExcluded };
  };
  const [first, ...others] = listOptions(reservation);
  const searches: readonly [Found, ...Found[]] = [search(first), ...others.map(search)];
  const [best] = searches
    .flatMap((found) => (found.victims === undefined ? [] : [{ found, rank: computeVictimRank(found.victims) }]))
    .sort((a, b) => Number(a.found.isExcluded) - Number(b.found.isExcluded) || a.rank - b.rank);
  return best?.found ?? chooseReported(searches, present);
}

function findLimit({ isLimited, isExcluded }: Found, { ledger }: World): PreemptionLimit | undefined {
  if (isLimited) return "MAX_VICTIMS";
  if (ledger.beneficiaries.length >= MAX_BENEFICIARIES) return "MAX_BENEFICIARIES";
  return isExcluded ? "MAX_FIRST_PLACES" : undefined;
}
