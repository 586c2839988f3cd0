import { enums, type muster } from "@muster/proto";

/** One machine of a pool, for one component of the owner. */
export type Need = { readonly component: string; readonly pool: string };

/** Why a reservation waits, without the numbers that change while it does. `code` is empty where the ledger states none. */
type WaitReason = { readonly code: string; readonly pool: string; readonly requested: number };

/** A reservation as the ledger shows it. */
export type Reservation = {
  readonly id: string;
  readonly ownerId: string;
  /** Higher in every later reservation; 0: the ledger is of a version that does not number them. */
  readonly sequence: number;
  /** By the clock of the ledger. */
  readonly createdAtMs: number;
  readonly needs: readonly Need[];
} & (
  | { readonly state: "waiting"; readonly because: WaitReason }
  | { readonly state: "granted"; readonly machines: readonly (Need & { readonly node: string })[] }
);

/** Undefined: it is missing, or of another owner kind. */
export function readReservation(
  message: muster.reservation.v1.Reservation | undefined,
  ownerKind: string,
): Reservation | undefined {
  if (message?.owner?.kind !== ownerKind) return undefined;
  const { id, owner, sequence, createdAtMs, needs, machines, because, state } = message;
  const read = {
    id,
    ownerId: owner.id,
    sequence,
    createdAtMs,
    needs: needs.map(({ component, pool }) => ({ component, pool })),
  };
  if (enums.ReservationState.nameOf(state) === "GRANTED")
    return {
      ...read,
      state: "granted",
      machines: machines.map(({ component, pool, node }) => ({ component, pool, node })),
    };
  const { code = "", pool = "", requested = 0 } = because ?? {};
  return { ...read, state: "waiting", because: { code, pool, requested } };
}
