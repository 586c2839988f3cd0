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
import { askOfLeases } from "./lease-questions.ts";
import { print, type Format } from "./output.ts";

/** What a name of a lease stands for: one of an engine, or an owner that only the ledger knows. */
export type LeaseOrOwner = { readonly lease: Lease } | { readonly reservation: ReservationExplanation };

/**
 * Asks engines and the ledger beside each other: whoever knows the name answers for both, and one that is not there is waited for only where the other does not know it.
 * Undefined: the ledger does not know it, and no engine answers. Throws what an engine says where it does not know it either.
 */
export async function findLeaseOrOwner({ link }: Connected, id: string): Promise<LeaseOrOwner | undefined> {
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

/** Says why a lease is where it is. */
export async function explainLeaseOf(cli: Cli, connected: Connected, lease: Lease, format: Format): Promise<void> {
  const { id } = lease.order;
  const { message, ...rest } = explainLease(lease, await reservationOf(connected, lease), cli.now());
  const explanation = { ...rest, message: plain(message) };
  print(cli.io, format, {
    table: () => buildLeaseExplanation(lease, explanation),
    data: () => ({ [LEASE_NOUN]: id, phase: lease.phase, ...explanation }),
  });
}

/** Of machines that it waits for. */
async function reservationOf(
  { services }: Connected,
  { order, phase, run }: Lease,
): Promise<ReservationExplanation | undefined> {
  if (order.type !== "machine" || phase !== "PROVISIONING") return undefined;
  return await unlessFault(services.explanation(LEASE_NOUN, `${order.id}-${run}`), "not_found", "unavailable");
}
