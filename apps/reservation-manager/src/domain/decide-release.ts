import { reservationOf, type Ledger, type LedgerEvent } from "./ledger.ts";
import type { Owner } from "./reservation.ts";

export type ReleaseVerdict =
  | { readonly do: "release"; readonly events: readonly LedgerEvent[]; readonly because: "OWNER_IS_DONE" }
  | { readonly do: "nothing"; readonly events: readonly []; readonly because: "NOTHING_RESERVED" };

/** Ends the owner's reservation, granted or waiting. Releasing what is not there changes nothing and says so. */
export function decideRelease(owner: Owner, ledger: Ledger, nowMs: number): ReleaseVerdict {
  const reservation = reservationOf(ledger, owner);
  if (reservation === undefined) return { do: "nothing", events: [], because: "NOTHING_RESERVED" };
  const released: LedgerEvent = { kind: "released", sequence: reservation.sequence, atMs: nowMs };
  return { do: "release", events: [released], because: "OWNER_IS_DONE" };
}
