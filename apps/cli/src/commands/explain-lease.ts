import { faultOf, unlessFault } from "@muster/faults";
import { STATUS_TIMEOUT_MS } from "../adapters/asking.ts";
import { leaseCalls } from "../adapters/lease-calls.ts";
import { musterServices } from "../adapters/muster-services.ts";
import type { Cli, Connected } from "../cli.ts";
import { plain } from "../domain/build-table.ts";
import { buildLeaseExplanation, explainLease } from "../domain/explain-lease.ts";
import type { Lease } from "../domain/lease.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import type { ReservationExplanation } from "../domain/reservation.ts";
import { askOfLeases } from "../kinds/lease-refusals.ts";
import type { Shown } from "../kinds/resource.ts";
import { showReservation } from "./show-reservation.ts";

/** Why a lease is in its phase; of an id that only the ledger knows, what it holds or waits for. */
export async function explainLeaseOrOwner(cli: Cli, connected: Connected, id: string): Promise<Shown> {
  const found = await findLeaseOrOwner(connected, id);
  if (found === undefined || "reservation" in found)
    return showReservation(cli, connected, { kind: LEASE_NOUN, id }, found?.reservation);
  const { lease } = found;
  const { message, ...rest } = explainLease(lease, await reservationOf(connected, lease), cli.now());
  const explanation = { ...rest, message: plain(message) };
  return {
    table: () => buildLeaseExplanation(lease, explanation),
    data: () => ({ [LEASE_NOUN]: lease.order.id, phase: lease.phase, ...explanation }),
  };
}

type LeaseOrOwner = { readonly lease: Lease } | { readonly reservation: ReservationExplanation };

/**
 * Asks the engines and the ledger concurrently. The first that knows the id answers for both; a service that does not answer is waited for only where the
 * other does not know the id. Undefined: the ledger does not know it, and no engine answers. Rejects with the refusal of the engine where that does not know
 * it either.
 */
async function findLeaseOrOwner({ link }: Connected, id: string): Promise<LeaseOrOwner | undefined> {
  const done = new AbortController();
  const stop = AbortSignal.any([link.stop, done.signal]);
  const engine = leaseCalls({ bus: link.bus, stop }, STATUS_TIMEOUT_MS).get(id);
  const ledger = musterServices(link.bus, stop).explanation(LEASE_NOUN, id);
  try {
    return await Promise.any([engine.then((lease) => ({ lease })), ledger.then((reservation) => ({ reservation }))]);
  } catch {
    // Both have failed, so neither is waited for.
    if (await isUnknown(engine)) await askOfLeases({ link }, () => engine);
    if (await isUnknown(ledger)) return undefined;
    return { reservation: await ledger };
  } finally {
    done.abort();
  }
}

async function isUnknown(answer: Promise<unknown>): Promise<boolean> {
  try {
    await answer;
    return false;
  } catch (error) {
    return faultOf(error)?.code === "not_found";
  }
}

/** The machines that it waits for. */
async function reservationOf(
  { services }: Connected,
  { order, phase, run }: Lease,
): Promise<ReservationExplanation | undefined> {
  if (order.type !== "machine" || phase !== "PROVISIONING") return undefined;
  return await unlessFault(services.explanation(LEASE_NOUN, `${order.id}-${run}`), "not_found", "unavailable");
}
