import type { Fault } from "@muster/faults";
import { reservationOf, type Ledger, type LedgerEvent } from "./ledger.ts";
import type { Owner } from "@muster/names";
import { idOf } from "./reservation.ts";

export type RenewalRequest = {
  readonly owner: Owner;
  /** The reservation that lives on; a later one of the same owner is not meant. */
  readonly reservationId: string;
  /** From now on; 0: no time limit any more. */
  readonly ttlMs: number;
};

export type RenewalVerdict =
  | {
      readonly do: "renew";
      readonly sequence: number;
      readonly events: readonly LedgerEvent[];
      readonly because: "OWNER_LIVES";
    }
  | { readonly do: "refuse"; readonly fault: Fault };

/** Gives the owner's reservation a new time limit. One that is over stays over: its machines may be somebody else's, so the owner has to know. */
export function decideRenewal(request: RenewalRequest, ledger: Ledger, nowMs: number): RenewalVerdict {
  const { owner, reservationId, ttlMs } = request;
  const reservation = reservationOf(ledger, owner);
  if (reservation === undefined || idOf(reservation.sequence) !== reservationId)
    return { do: "refuse", fault: { code: "not_found", kind: "reservation", id: reservationId } };
  const { sequence } = reservation;
  return { do: "renew", sequence, events: [renewal(sequence, ttlMs, nowMs)], because: "OWNER_LIVES" };
}

export function renewal(sequence: number, ttlMs: number, nowMs: number): LedgerEvent {
  return { kind: "renewed", sequence, expiresAtMs: ttlMs === 0 ? undefined : nowMs + ttlMs, atMs: nowMs };
}
