import { randomUUID } from "node:crypto";
import type { Client } from "@muster/bus";
import { throwFault, unlessMissing } from "@muster/faults";
import { muster, type ReservationService } from "@muster/proto";
import { MACHINE } from "../domain/data-machine.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { requireData } from "./require-data.ts";
import type { Workload } from "./workload.ts";

/** Of leases, in the ledger. */
const OWNER_KIND = "lease";

const GRANTED: number = muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED;

/** Whole machines of a pool: held in the ledger, which gives all of them at once, and for which the node scaler makes nodes. The result names the nodes. */
export function machineWorkload(ledger: Client<typeof ReservationService>): Workload {
  return {
    type: MACHINE.type,
    provision: async (lease, signal) => {
      const { pool, machines: requested } = requireData(MACHINE, lease);
      const needs = Array.from({ length: requested }, (_, at) => ({ component: `machine-${at}`, pool }));
      const request = { requestId: randomUUID(), owner: ownerOf(lease), needs, wait: true };
      const { reservation } = await ledger.reserve(request, { signal });
      const state: number | undefined = reservation?.state ?? undefined;
      if (state !== GRANTED)
        // It stands in the ledger's queue, and is asked for again.
        throwFault({ code: "pool_availability", pool, requested, available: reservation?.because?.available ?? 0 });
      const machines = (reservation?.machines ?? []).map(({ node }) => ({ pool, node }));
      return JSON.stringify({ reservation: reservation?.id, machines });
    },
    decommission: async (lease, signal) => {
      const owner = ownerOf(lease);
      const found = await unlessMissing(ledger.getReservation({ owner }, { signal }));
      const reservationId = found?.reservation?.id ?? "";
      if (reservationId === "") return;
      await ledger.unreserve({ requestId: randomUUID(), owner, reservationId }, { signal });
    },
  };
}

/** Each run has a name of its own, so that what gives back an earlier one late gives back nothing of a later one. */
function ownerOf({ order, run }: LeaseRecord): { readonly kind: string; readonly id: string } {
  return { kind: OWNER_KIND, id: `${order.id}-${run}` };
}
