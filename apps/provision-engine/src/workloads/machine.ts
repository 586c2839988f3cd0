import { randomUUID } from "node:crypto";
import type { Client } from "@muster/bus";
import { throwFault, unlessMissing } from "@muster/faults";
import { muster, type ReservationService } from "@muster/proto";
import type { LeaseRecord } from "../domain/lease.ts";
import { MACHINE } from "../domain/type-machine.ts";
import { leaseOwner, leaseOwners, type LeaseOwner } from "./lease-owner.ts";
import { requireData } from "./require-data.ts";
import type { Workload } from "./workload.ts";

/** What machines that are held may have become. */
const BROKEN: ReadonlySet<string> = new Set(["NOT_READY", "LOST"]);

const GRANTED: number = muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED;

/** Whole machines of a pool: held in the ledger, which gives all of them at once, and for which the node scaler makes nodes. The result names the nodes. */
export function machineWorkload(
  ledger: Pick<
    Client<typeof ReservationService>,
    "reserve" | "checkReservation" | "listMachines" | "getReservation" | "unreserve"
  >,
): Workload {
  const asked = (lease: LeaseRecord) => {
    const { pool, machines: requested } = requireData(MACHINE, lease);
    const needs = Array.from({ length: requested }, (_, at) => ({ component: `machine-${at}`, pool }));
    return { pool, requested, owner: leaseOwner(lease), needs };
  };
  const provision: Workload["provision"] = async (lease, signal) => {
    const { pool, requested, owner, needs } = asked(lease);
    const request = { requestId: randomUUID(), owner, needs, wait: true };
    const { reservation } = await ledger.reserve(request, { signal });
    const state: number | undefined = reservation?.state ?? undefined;
    if (state !== GRANTED)
      // It stands in the ledger's queue, and is asked for again.
      throwFault({ code: "pool_availability", pool, requested, available: reservation?.because?.available ?? 0 });
    const machines = (reservation?.machines ?? []).map(({ node }) => ({ pool, node }));
    return JSON.stringify({ reservation: reservation?.id, machines });
  };
  return {
    type: MACHINE.type,
    provision,
    tryOut: async (lease, signal) => {
      const { owner, needs } = asked(lease);
      await ledger.checkReservation({ owner, needs }, { signal });
    },
    check: async (lease, signal) => {
      // What was taken back is asked for again; it may be other nodes.
      const result = await provision(lease, signal);
      const { pool } = requireData(MACHINE, lease);
      const { id } = leaseOwner(lease);
      for (let next = ""; ;) {
        const page = await ledger.listMachines({ pool, continue: next }, { signal });
        const broken = page.machines.find(
          ({ holder, standing }) => holder?.owner?.id === id && standing !== undefined && BROKEN.has(standing ?? ""),
        );
        if (broken !== undefined) {
          const reason = `node ${broken.node ?? ""} is ${broken.standing ?? ""}`;
          throwFault({ code: "invalid_request", field: "machines", reason });
        }
        next = page.continue;
        if (next === "") return result;
      }
    },
    decommission: async (lease, signal) => {
      for (const owner of leaseOwners(lease)) await giveBack(ledger, owner, signal);
    },
  };
}

/** Of one owner in one call: it has one reservation at a time, and a request that came late makes the next. */
const GIVEN_BACK_MAX = 3;

/** Resolves once the ledger has ended the owner's reservation, or knows none. Rejects with unavailable where the owner has another one each time. */
async function giveBack(
  ledger: Pick<Client<typeof ReservationService>, "getReservation" | "unreserve">,
  owner: LeaseOwner,
  signal: AbortSignal,
): Promise<void> {
  for (let times = 0; times < GIVEN_BACK_MAX; times += 1) {
    const found = await unlessMissing(ledger.getReservation({ owner }, { signal }));
    if (found === undefined) return;
    const reservationId = found.reservation?.id ?? "";
    // Where it ended nothing, that one had ended before: what the owner has now may be another.
    const { released } = await ledger.unreserve({ requestId: randomUUID(), owner, reservationId }, { signal });
    if (released) return;
  }
  throwFault({
    code: "unavailable",
    dependency: `the ledger, where ${owner.id} has a new reservation each time,`,
    retryAfterMs: 1000,
  });
}
