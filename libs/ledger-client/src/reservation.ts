import { enums, type muster } from "@muster/proto";

/** The requests that a part of a machine holds, by resource: millicores of cpu, otherwise bytes or pieces. */
export type Share = Readonly<Record<string, number>>;

/** One machine of a pool, for one component of the owner. With `shared`, a part of a machine that holds these requests. */
export type Need = { readonly component: string; readonly pool: string; readonly shared?: Share | undefined };

/** Why a reservation waits. */
export type WaitReason = {
  readonly code: string;
  readonly pool: string;
  readonly requested: number;
  /** How many of `requested` are parts of machines. */
  readonly parts: number;
  /** These two change while the reservation waits; a cache does not follow them. */
  readonly available: number;
  readonly ahead: number;
};

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
  | { readonly state: "waiting"; /** Undefined: the ledger states none. */ readonly because: WaitReason | undefined }
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
    needs: needs.map(readNeed),
  };
  if (enums.ReservationState.nameOf(state) === "GRANTED")
    return {
      ...read,
      state: "granted",
      machines: machines.map((machine) => ({ ...readNeed(machine), node: machine.node })),
    };
  return { ...read, state: "waiting", because: readWaitReason(because) };
}

function readNeed({ component, pool, shared }: muster.reservation.v1.Need): Need {
  return { component, pool, ...(shared !== undefined && { shared: shared.requests }) };
}

/** The need as a message of requests. */
export function needMessage({ component, pool, shared }: Need): muster.reservation.v1.Need.$Properties {
  return { component, pool, ...(shared !== undefined && { shared: { requests: shared } }) };
}

export function readWaitReason(message: muster.reservation.v1.WaitReason | undefined): WaitReason | undefined {
  if (message === undefined) return undefined;
  const { code, pool, requested, parts, available, ahead } = message;
  return { code, pool, requested, parts, available, ahead };
}
