import type { Bus } from "@muster/bus";
import { muster, subjects } from "@muster/proto";
import { leaseOfOwner, OWNER_KIND } from "../workloads/lease-owner.ts";

export type Grants = {
  /** Told the id of each lease, as what is there of it was made first, that the ledger has granted machines. Returns the way to stop. */
  onGrant(listener: (lease: string) => void): () => void;
};

/** Listens to the ledger until disposed. A grant that is not heard is found when its machines are asked for again. */
export async function openGrants(bus: Pick<Bus, "listen">): Promise<Grants & AsyncDisposable> {
  const listeners = new Set<(lease: string) => void>();
  const heard = await bus.listen(subjects.anyReservationGranted, ({ payload }) => {
    const lease = grantedLease(payload);
    if (lease !== undefined) for (const listener of listeners) listener(lease);
  });
  return {
    onGrant: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    [Symbol.asyncDispose]: () => heard[Symbol.asyncDispose](),
  };
}

/** The lease that a grant is for; undefined: it is for somebody else, or cannot be read. */
export function grantedLease(payload: Uint8Array): string | undefined {
  try {
    const { reservation } = muster.reservation.v1.ReservationGranted.decode(payload);
    const { kind, id } = reservation?.owner ?? {};
    return kind === OWNER_KIND ? leaseOfOwner(id ?? "")?.id : undefined;
  } catch {
    return undefined;
  }
}
