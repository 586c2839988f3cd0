import { findReservation, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";
import type { Owner } from "@muster/names";
import { getReservationId } from "../ledger/reservation.ts";

export type ReleaseRequest = {
  readonly owner: Owner;
  /** Only this reservation ends, not a later one of the same owner. */
  readonly reservationId: string;
};

export type ReleaseVerdict =
  | { readonly kind: "release"; readonly events: readonly LedgerEvent[]; readonly because: "OWNER_IS_DONE" }
  | {
      readonly kind: "nothing";
      readonly events: readonly [];
      readonly because: "NOTHING_RESERVED" | "ANOTHER_RESERVATION";
    };

/**
 * Ends this reservation of the owner, granted or waiting. A missing reservation changes nothing and is reported: a late release must not end the reservation of
 * a newer owner of that name.
 */
export function decideReservationRelease(request: ReleaseRequest, ledger: Ledger, nowMs: number): ReleaseVerdict {
  const reservation = findReservation(ledger, request.owner);
  if (reservation === undefined) return { kind: "nothing", events: [], because: "NOTHING_RESERVED" };
  const { sequence } = reservation;
  if (getReservationId(sequence) !== request.reservationId)
    return { kind: "nothing", events: [], because: "ANOTHER_RESERVATION" };
  return { kind: "release", events: [{ kind: "released", sequence, atMs: nowMs }], because: "OWNER_IS_DONE" };
}
