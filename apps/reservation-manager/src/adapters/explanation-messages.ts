import type { muster } from "@muster/proto";
import type { RequestAhead } from "../domain/decisions/explain-order.ts";
import type { PartDemand } from "../domain/decisions/explain-parts.ts";
import type { Explanation, Holder, HoldInForce, PoolExplanation, Victim } from "../domain/decisions/explanation.ts";
import type { ComparedQueue } from "../domain/decisions/precedence.ts";
import { toFraction } from "../domain/ledger/share.ts";
import type { UnusableNode } from "../domain/ledger/machines.ts";
import { countByPool, getReservationId, countMachines } from "../domain/ledger/reservation.ts";
import { toWireAmounts, toWireNodeUse, toWireReservation } from "./messages.ts";

export function toWireExplanation(explanation: Explanation): muster.reservation.v1.ExplainReservationReply.$Properties {
  const { reservation, because, message, pools, place, hold, overtakenUntilMs, concurrency } = explanation;
  return {
    reservation: toWireReservation({ reservation, because }),
    code: because?.code,
    message,
    pools: pools.map(toWirePool),
    place: place && { ahead: place.ahead, aheadByPriority: place.byPriority, aheadMore: place.more },
    hold: hold && toWireHold(hold),
    overtakenUntilMs,
    concurrency: concurrency && {
      limit: concurrency.limit,
      granted: concurrency.granted,
      holders: concurrency.holders.listed.map(toWireHolder),
      holdersMore: concurrency.holders.more,
    },
    requestsAhead: explanation.requestsAhead?.listed.map(toWireAhead),
    requestsAheadMore: explanation.requestsAhead?.more,
    preempted: explanation.preempted.listed.map(toWireVictim),
    preemptedMore: explanation.preempted.more,
    preemption: explanation.preemption && toWireOutlook(explanation.preemption),
  };
}

function toWireAhead({
  owner,
  sequence,
  queue,
  compared,
  ...numbers
}: RequestAhead): muster.reservation.v1.RequestAhead.$Properties {
  return {
    ...{ owner, reservationId: getReservationId(sequence), queue, ...numbers },
    ...(compared && { compared: toWireCompared(compared.other), comparedWith: toWireCompared(compared.own) }),
  };
}

function toWireCompared({ share, ...compared }: ComparedQueue): muster.reservation.v1.ComparedQueue.$Properties {
  return { ...compared, share: toFraction(share) };
}

function toWireOutlook({
  victims,
  againAtMs,
  limit,
}: NonNullable<Explanation["preemption"]>): muster.reservation.v1.PreemptionOutlook.$Properties {
  return { victims: victims.listed.map(toWireVictim), victimsMore: victims.more, againAtMs, limit };
}

function toWirePool(pool: PoolExplanation): muster.reservation.v1.PoolExplanation.$Properties {
  const { unusable, holders, parts, amounts, ...numbers } = pool;
  return {
    ...numbers,
    unusable: unusable.listed.length + unusable.more,
    unusableNodes: unusable.listed.map(toWireUnusable),
    unusableMore: unusable.more,
    holders: holders.listed.map(toWireHolder),
    holdersMore: holders.more,
    ...(parts && { parts: parts.listed.map(toWireParts), partsMore: parts.more }),
    ...(amounts && { allocatable: toWireAmounts(amounts.allocatable), free: toWireAmounts(amounts.free) }),
  };
}

function toWireParts({ requests, shortage, ...counts }: PartDemand): muster.reservation.v1.PartDemand.$Properties {
  const part = { requests: toWireAmounts(requests) };
  return { part, ...counts, shortage: shortage && { ...shortage, resources: [...shortage.resources] } };
}

function toWireUnusable({ foreign, taints, ...node }: UnusableNode): muster.reservation.v1.UnusableNode.$Properties {
  return { ...node, foreign: foreign && toWireNodeUse(foreign), ...(taints && { taints: [...taints] }) };
}

export function toWireHolder({
  owner,
  sequence,
  machines,
  parts,
  sinceMs,
}: Holder): muster.reservation.v1.Holder.$Properties {
  return { owner, reservationId: getReservationId(sequence), machines, parts, sinceMs };
}

function toWireVictim(victim: Victim): muster.reservation.v1.Holder.$Properties {
  return { ...toWireHolder(victim), reason: victim.reason };
}

function toWireHold({ reservation, own }: HoldInForce): muster.reservation.v1.Hold.$Properties {
  const { owner, sequence, createdAtMs, needs } = reservation;
  const machines = countByPool(needs).map((need) => ({ pool: need.pool, machines: countMachines(need) }));
  return { owner, reservationId: getReservationId(sequence), waitingSinceMs: createdAtMs, machines, own };
}
