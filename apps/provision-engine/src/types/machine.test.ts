import { FaultError } from "@muster/faults";
import { makeLedgerCalls } from "@muster/ledger-client";
import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import { makeLeaseQueue } from "./lease-queue.ts";
import { parseLeaseOwner, buildLeaseOwner, makeMachineWorkload, OWNER_KIND } from "./machine.ts";

const { CheckReservationReply, GetReservationReply, ListMachinesReply, ListQueuesReply, ListReservationsReply } =
  muster.reservation.v1;
const { Owner } = muster.common.v1;
const { AcceptPreemptionReply, RequeueReply, Reservation, ReserveReply, UnreserveReply } = muster.reservation.v1;
const { signal } = new AbortController();

/**
 * A ledger with reservations of these owners. `late`: the number of late requests that are granted only shortly before the release of the present reservation.
 */
function ledgerOf(owners: readonly string[], late = 0) {
  const held = new Map(owners.map((id) => [id, 1]));
  let arriving = late;
  const calls: Parameters<typeof makeLedgerCalls>[0] = {
    getReservation: ({ owner }) => {
      const id = owner?.id ?? "";
      const sequence = held.get(id);
      if (sequence !== undefined)
        return Promise.resolve(
          GetReservationReply.create({
            reservation: Reservation.create({ id: String(sequence), owner: Owner.create({ kind: OWNER_KIND, id }) }),
          }),
        );
      return Promise.reject(new FaultError({ code: "not_found", kind: "reservation", id }));
    },
    unreserve: ({ owner, reservationId }) => {
      const id = owner?.id ?? "";
      if (arriving > 0) {
        arriving -= 1;
        held.set(id, (held.get(id) ?? 0) + 1);
      }
      const released = String(held.get(id)) === reservationId;
      if (released) held.delete(id);
      return Promise.resolve(UnreserveReply.create({ released }));
    },
    acceptPreemption: () => Promise.resolve(AcceptPreemptionReply.create()),
    requeue: () => Promise.resolve(RequeueReply.create()),
    checkReservation: () => Promise.resolve(CheckReservationReply.create()),
    reserve: () => Promise.resolve(ReserveReply.create()),
    listReservations: () => Promise.resolve(ListReservationsReply.create()),
  };
  const listMachines = () => Promise.resolve(ListMachinesReply.create());
  const listQueues = () => Promise.resolve(ListQueuesReply.create());
  const ledger = { ...makeLedgerCalls(calls, OWNER_KIND), listMachines, listQueues };
  const workload = makeMachineWorkload(ledger, makeLeaseQueue(ledger, undefined));
  return { workload, held };
}

it("parses the lease and run that machines are held for, and no other name", () => {
  const { id } = buildLeaseOwner(makeLeaseRecord({ order: { id: "12-3" }, run: 4 }));
  expect(parseLeaseOwner(id)).toEqual({ id: "12-3", run: 4 });
  for (const other of ["", "12-3", "12-3-0", "a-3-4", "12-3-4-5", "12-3-4 "])
    expect(parseLeaseOwner(other)).toBeUndefined();
});

it.each([
  { what: "this run and earlier ones", run: 2, held: ["1-1-1", "1-1-2"], left: [] },
  { what: "no later run, and no other lease", run: 2, held: ["1-1-2", "1-1-3", "1-2-1"], left: ["1-1-3", "1-2-1"] },
  { what: "the latest of many runs", run: 30, held: ["1-1-1", "1-1-11", "1-1-30"], left: ["1-1-1"] },
])("releases the machines of $what", async ({ run, held: owners, left }) => {
  const { workload, held } = ledgerOf(owners);
  await workload.decommission(makeLeaseRecord({ order: { type: "machine" }, run }), signal);
  expect([...held.keys()]).toEqual(left);
});

it("releases the successor of the reservation that it was about to release", async () => {
  const { workload, held } = ledgerOf(["1-1-1"], 1);
  await workload.decommission(makeLeaseRecord({ order: { type: "machine" }, run: 1 }), signal);
  expect([...held]).toEqual([]);
});

it("does not finish removing a lease while the ledger still holds machines for it", async () => {
  const { workload, held } = ledgerOf(["1-1-1"], 100);
  const going = workload.decommission(makeLeaseRecord({ order: { type: "machine" }, run: 1 }), signal);
  await expect(going).rejects.toMatchObject({ fault: { code: "unavailable" } });
  expect(held.size).toBe(1);
});
