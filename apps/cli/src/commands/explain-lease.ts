import { faultOf } from "@muster/faults";
import { leaseCalls } from "../adapters/lease-calls.ts";
import type { Cli, Connected } from "../cli.ts";
import { plain } from "../domain/build-table.ts";
import { buildLeaseExplanation, explainLease } from "../domain/explain-lease.ts";
import type { Lease } from "../domain/lease.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import type { ReservationExplanation } from "../domain/reservation.ts";
import { print, type Format } from "./output.ts";

/** `muster explain lease/ID`. False where no engine knows the lease, so that the ledger may know an owner of this name. */
export async function explainLeaseOf(cli: Cli, connected: Connected, id: string, format: Format): Promise<boolean> {
  const lease = await unlessUnknown(leaseCalls(connected.link).get(id));
  if (lease === undefined) return false;
  const { message, ...rest } = explainLease(lease, await reservationOf(connected, lease), cli.now());
  const explanation = { ...rest, message: plain(message) };
  print(cli.io, format, {
    table: () => buildLeaseExplanation(lease, explanation),
    data: () => ({ [LEASE_NOUN]: id, phase: lease.phase, ...explanation }),
  });
  return true;
}

/** Of machines that it waits for. */
async function reservationOf(
  { services }: Connected,
  { order, phase, run }: Lease,
): Promise<ReservationExplanation | undefined> {
  if (order.type !== "machine" || phase !== "PROVISIONING") return undefined;
  return await unlessUnknown(services.explanation(LEASE_NOUN, `${order.id}-${run}`));
}

/** Undefined where it does not exist, or nobody is there who would know. */
async function unlessUnknown<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    const code = faultOf(error)?.code;
    if (code === "not_found" || code === "unavailable") return undefined;
    throw error;
  }
}
