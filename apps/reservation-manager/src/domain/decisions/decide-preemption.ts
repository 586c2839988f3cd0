import { findReservation, type Ledger, type LedgerEvent } from "../ledger/ledger.ts";
import { getReservationId } from "../ledger/reservation.ts";
import type { ReleaseRequest } from "./decide-reservation-release.ts";

export type AcceptVerdict =
  | { readonly kind: "accept"; readonly events: readonly LedgerEvent[]; readonly because: "WORK_IS_ENDING" }
  | { readonly kind: "nothing"; readonly events: readonly []; readonly because: NothingReason };

export type RequeueVerdict =
  | { readonly kind: "requeue"; readonly events: readonly LedgerEvent[]; readonly because: "WORK_HAS_ENDED" }
  | { readonly kind: "nothing"; readonly events: readonly []; readonly because: NothingReason };

type NothingReason = "NOTHING_RESERVED" | "ANOTHER_RESERVATION" | "NOT_PREEMPTED" | "ACCEPTED_ALREADY";

/** Records that the owner begins to end its work. From then on the preemption cannot be withdrawn. A withdrawn preemption cannot be accepted. */
export function decideAcceptance(request: ReleaseRequest, ledger: Ledger, atMs: number): AcceptVerdict {
  const found = findPreempted(request, ledger);
  if (typeof found === "string") return { kind: "nothing", events: [], because: found };
  const { sequence, isAccepted } = found;
  if (isAccepted) return { kind: "nothing", events: [], because: "ACCEPTED_ALREADY" };
  return { kind: "accept", events: [{ kind: "preemptionAccepted", sequence, atMs }], because: "WORK_IS_ENDING" };
}

/** Requeues the reservation after its work has ended. A waiting reservation, or one without a preemption, stays unchanged. */
export function decideRequeue(request: ReleaseRequest, ledger: Ledger, atMs: number): RequeueVerdict {
  const found = findPreempted(request, ledger);
  if (typeof found === "string") return { kind: "nothing", events: [], because: found };
  return { kind: "requeue", events: [{ kind: "requeued", sequence: found.sequence, atMs }], because: "WORK_HAS_ENDED" };
}

function findPreempted(
  { owner, reservationId }: ReleaseRequest,
  ledger: Ledger,
): { readonly sequence: number; readonly isAccepted: boolean } | NothingReason {
  const reservation = findReservation(ledger, owner);
  if (reservation === undefined) return "NOTHING_RESERVED";
  const { sequence, grant } = reservation;
  if (getReservationId(sequence) !== reservationId) return "ANOTHER_RESERVATION";
  const { preemption } = grant ?? {};
  return preemption === undefined ? "NOT_PREEMPTED" : { sequence, isAccepted: preemption.isAccepted };
}
