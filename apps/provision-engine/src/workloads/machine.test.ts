import { FaultError } from "@muster/faults";
import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { aLease } from "../domain/a-lease.ts";
import { machineWorkload } from "./machine.ts";

const { CheckReservationReply, GetReservationReply, ListMachinesReply, ReserveReply, UnreserveReply } =
  muster.reservation.v1;
const { signal } = new AbortController();

/** A ledger in which these owners hold something. */
function ledgerOf(owners: readonly string[]) {
  const held = new Set(owners);
  const workload = machineWorkload({
    getReservation: ({ owner }) => {
      const id = owner?.id ?? "";
      if (held.has(id)) return Promise.resolve(GetReservationReply.create({ reservation: { id } }));
      return Promise.reject(new FaultError({ code: "not_found", kind: "reservation", id }));
    },
    unreserve: ({ owner }) => {
      held.delete(owner?.id ?? "");
      return Promise.resolve(UnreserveReply.create());
    },
    checkReservation: () => Promise.resolve(CheckReservationReply.create()),
    reserve: () => Promise.resolve(ReserveReply.create()),
    listMachines: () => Promise.resolve(ListMachinesReply.create()),
  });
  return { workload, held };
}

it.each([
  { what: "this run and earlier ones", run: 2, held: ["1-1-1", "1-1-2"], left: [] },
  { what: "no later run, and no other lease", run: 2, held: ["1-1-2", "1-1-3", "1-2-1"], left: ["1-1-3", "1-2-1"] },
  { what: "the latest of many runs", run: 30, held: ["1-1-1", "1-1-11", "1-1-30"], left: ["1-1-1"] },
])("gives back what is held for $what", async ({ run, held: owners, left }) => {
  const { workload, held } = ledgerOf(owners);
  await workload.decommission(aLease({ order: { type: "machine" }, run }), signal);
  expect([...held]).toEqual(left);
});
