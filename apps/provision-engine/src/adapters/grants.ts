import type { Bus } from "@muster/bus";
import { listenReservations } from "@muster/ledger-client";
import type { HintDeps } from "../lead/follow-hints.ts";
import { leaseOfOwner, OWNER_KIND } from "../types/machine.ts";

/** Listens to grants of the ledger until disposed. A missed grant is found at the next call of the provisioner. */
export async function openGrants(bus: Pick<Bus, "listen">): Promise<HintDeps["grants"] & AsyncDisposable> {
  const listeners = new Set<(lease: string) => void>();
  const heard = await listenReservations(bus, OWNER_KIND, {
    granted: ({ ownerId }) => {
      const lease = leaseOfOwner(ownerId);
      if (lease !== undefined) for (const listener of listeners) listener(lease.id);
    },
  });
  return {
    onGrant: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    [Symbol.asyncDispose]: () => heard[Symbol.asyncDispose](),
  };
}
