import { throwFault } from "@muster/faults";
import type { Owner } from "@muster/names";
import { findReservation, type Ledger } from "./ledger/ledger.ts";
import type { Reservation } from "./ledger/reservation.ts";
import type { World } from "./ledger/world.ts";

/** Returns the request that the work is preempted for; undefined if the work is not preempted for one. */
export function findBeneficiary({ grant }: Reservation, { reservations }: Ledger): Reservation | undefined {
  const sequence = grant?.preemption?.beneficiary;
  return sequence === undefined ? undefined : reservations.get(sequence);
}

/** Throws FaultError not_found if the owner has no reservation. */
export function requireReservation({ ledger }: World, owner: Owner): Reservation {
  const reservation = findReservation(ledger, owner);
  const id = `${owner.kind}/${owner.id}`;
  return reservation ?? throwFault({ code: "not_found", kind: "reservation", id });
}
