import type { Handlers } from "@muster/bus";
import type { ReservationService } from "@muster/proto";
import type { LedgerKeeper } from "../service.ts";
import { toWireExplanation } from "./explanation-messages.ts";
import { toOwner, toRequest, toWirePool, toWireReservation } from "./messages.ts";

/** Reservations in one page: what is asked for when nothing is, and the most. */
const PAGE_MAX = 500;

/** The methods of ReservationService, answered by the ledger's keeper. */
export function makeHandlers(keeper: LedgerKeeper): Handlers<typeof ReservationService> {
  return {
    reserve: async (message) => ({ reservation: toWireReservation(await keeper.reserve(toRequest(message))) }),
    unreserve: async ({ owner, reservationId }) => ({
      released: await keeper.release({ owner: toOwner(owner), reservationId }),
    }),
    renewReservation: async ({ owner, reservationId, ttlMs }) => ({
      reservation: toWireReservation(await keeper.renew({ owner: toOwner(owner), reservationId, ttlMs })),
    }),
    limitConcurrency: async ({ ownerKind, limit }) => ({ changed: await keeper.limit({ ownerKind, limit }) }),
    getReservation: async ({ owner }) => ({ reservation: toWireReservation(await keeper.get(toOwner(owner))) }),
    listReservations: async ({ ownerKind, limit, continue: after }) => {
      const page = await keeper.list({
        kind: emptyIsAbsent(ownerKind),
        after: emptyIsAbsent(after),
        limit: limit === 0 ? PAGE_MAX : Math.min(limit, PAGE_MAX),
      });
      return { reservations: page.reports.map(toWireReservation), continue: page.next ?? "" };
    },
    explainReservation: async ({ owner }) => toWireExplanation(await keeper.explain(toOwner(owner))),
    listPools: async () => ({ pools: (await keeper.pools()).map(toWirePool) }),
  };
}

function emptyIsAbsent(text: string): string | undefined {
  return text === "" ? undefined : text;
}
