import type { Ledger } from "@muster/reservation-manager/ledger";
import type { NodeFacts } from "@muster/reservation-manager/machines";
import type { PreemptionWorld, Work } from "@muster/reservation-manager/naive-world";
import type { Reservation } from "@muster/reservation-manager/reservation";

/** What a decision reads. */
export type KnownWorld = { readonly ledger: Ledger; readonly nodes: readonly NodeFacts[]; readonly nowMs: number };

/** The same world as the reference reads it, without an index or a cache: every answer is computed from the reservations and the nodes. */
export function naiveWorldOf({ ledger, nodes, nowMs }: KnownWorld): PreemptionWorld {
  const promises = new Map(ledger.beneficiaries.map(({ sequence }, index) => [sequence, index + 1]));
  const work = [...ledger.reservations.values()].map((reservation) =>
    toWork(reservation, promises.get(reservation.sequence)),
  );
  return { queues: [...ledger.queues.values()], nodes, work, nowMs };
}

function toWork({ grant, ...asked }: Reservation, promise: number | undefined): Work {
  return {
    ...asked,
    ...(promise !== undefined && { promise }),
    ...(grant !== undefined && { grant: toNaiveGrant(grant) }),
  };
}

function toNaiveGrant({
  atMs,
  machines,
  use = new Map(),
  preemption,
}: NonNullable<Reservation["grant"]>): NonNullable<Work["grant"]> {
  return {
    atMs,
    nodes: machines.map(({ node }) => node),
    use,
    ...(preemption !== undefined && { leaving: preemption }),
  };
}
