import { throwFault } from "@muster/faults";
import type { Owner } from "@muster/names";
import { reservationOf, type Ledger } from "./ledger/ledger.ts";
import type { Reservation } from "./ledger/reservation.ts";
import type { World } from "./ledger/world.ts";

/** The request that the work is preempted for; undefined: none. */
export function beneficiaryOf({ grant }: Reservation, { reservations }: Ledger): Reservation | undefined {
  const sequence = grant?.preemption?.beneficiary;
  return sequence === undefined ? undefined : reservations.get(sequence);
}

/** Throws FaultError not_found where the owner has no reservation. */
export function existing({ ledger }: World, owner: Owner): Reservation {
  const reservation = reservationOf(ledger, owner);
  const id = `${owner.kind}/${owner.id}`;
  return reservation ?? throwFault({ code: "not_found", kind: "reservation", id });
}
