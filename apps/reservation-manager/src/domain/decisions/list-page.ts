import { getReservation, type Ledger } from "../ledger/ledger.ts";
import type { Reservation } from "../ledger/reservation.ts";

export type PageRequest = {
  /** Only owners of this kind; undefined: all. */
  readonly kind: string | undefined;
  /** The `next` of the page before; undefined: from the beginning. */
  readonly after: string | undefined;
  readonly limit: number;
};

/** `next` is set if more reservations follow. */
type Page = { readonly reservations: readonly Reservation[]; readonly next: string | undefined };

/** Returns one page of the ledger in the order of owners. A reservation that begins or ends between two pages neither hides nor repeats another. */
export function buildPage(ledger: Ledger, { kind, after, limit }: PageRequest): Page {
  const prefix = kind === undefined ? "" : `${kind}!`;
  const from = after === undefined || after < prefix ? prefix : after;
  const reservations: Reservation[] = [];
  let last: string | undefined;
  for (const [key, sequence] of ledger.owners.entries(from)) {
    if (key === after) continue;
    if (!key.startsWith(prefix)) break;
    if (reservations.length === limit) return { reservations, next: last };
    reservations.push(getReservation(ledger, sequence));
    last = key;
  }
  return { reservations, next: undefined };
}
