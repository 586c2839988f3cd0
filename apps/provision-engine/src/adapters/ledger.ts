import { makeClient, type Bus } from "@muster/bus";
import { makeLedgerCalls, listenReservations, type LedgerCalls } from "@muster/ledger-client";
import { ReservationService } from "@muster/proto";
import type { HintDeps } from "../lead/wake-leases.ts";
import { parseLeaseOwner, OWNER_KIND } from "../types/machine.ts";
import type { LeaseLedger } from "../types/workload.ts";
import { RESERVATION, type FoundObject } from "../domain/plan-cleanup.ts";
import type { Leftovers } from "../lead/cleaner.ts";

export function makeLeaseLedger(bus: Bus): LeaseLedger {
  const calls = makeClient(bus, ReservationService);
  const reservations = makeLedgerCalls(calls, OWNER_KIND);
  return { ...reservations, listMachines: calls.listMachines, listQueues: calls.listQueues };
}

/** Listens to grants of the ledger until disposed. The next call of the provisioner finds a missed grant. */
export async function openGrants(bus: Pick<Bus, "listen">): Promise<HintDeps["grants"] & AsyncDisposable> {
  const listeners = new Set<(lease: string) => void>();
  const heard = await listenReservations(bus, [OWNER_KIND], {
    granted: ({ ownerId }) => {
      const lease = parseLeaseOwner(ownerId);
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

/** Timeout of one page, so that a request for clean-up fails fast without a ledger. */
const TIMEOUT_MS = 2000;

/** Reservations of leases in the ledger, including queued ones: a late request is granted even if its lease is over. */
export function openLedgerLeftovers(
  ledger: Pick<LedgerCalls, "list" | "release">,
  failed: (kind: string, error: unknown) => void,
): Leftovers {
  return {
    find: async (signal, within) => {
      // Reservations belong to no namespace.
      if (within !== undefined) return { objects: [], unlisted: [] };
      const options = { signal, timeoutMs: TIMEOUT_MS };
      const objects: FoundObject[] = [];
      try {
        for await (const { reservations } of ledger.list(options))
          for (const { id: uid, ownerId: name, createdAtMs: createdMs } of reservations) {
            const lease = parseLeaseOwner(name);
            const object = { kind: RESERVATION, namespace: "", name, uid, lease, isTerminating: false, createdMs };
            // The ledger belongs to this installation.
            objects.push({ ...object, otherInstallation: undefined });
          }
        return { objects, unlisted: [] };
      } catch (error) {
        signal.throwIfAborted();
        failed(RESERVATION, error);
        return { objects, unlisted: [RESERVATION] };
      }
    },
    inUse: () => Promise.resolve(new Set()),
    remove: async ({ kind, name, uid }, signal) => {
      if (kind === RESERVATION) await ledger.release(name, uid, { signal });
    },
  };
}

/** Combines several sources of leftovers. Each removes only objects of its own kinds. */
export function joinLeftovers(places: readonly Leftovers[]): Leftovers {
  return {
    find: async (signal, within) => {
      const found = await Promise.all(places.map((each) => each.find(signal, within)));
      return {
        objects: found.flatMap(({ objects }) => objects),
        unlisted: found.flatMap(({ unlisted }) => unlisted),
      };
    },
    inUse: async (signal, within) => {
      const used = await Promise.all(places.map((each) => each.inUse(signal, within)));
      return used.reduce((all, some) => all && some && new Set([...all, ...some]), new Set());
    },
    remove: async (object, signal) => {
      for (const each of places) await each.remove(object, signal);
    },
  };
}
