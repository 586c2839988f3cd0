import { findFault } from "@muster/faults";
import { LeaseService } from "@muster/proto";
import { askExplanation } from "../adapters/ask-explanation.ts";
import { STATUS_TIMEOUT_MS } from "../adapters/read-pages.ts";
import { makeLeaseCalls } from "../adapters/lease-calls.ts";
import { openMusterServices } from "../adapters/muster-services.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { escapeControls } from "../domain/build-table.ts";
import { buildLeaseExplanation, buildExplanationRecord } from "../domain/build-explanation.ts";
import type { ExplainedReservation } from "../adapters/explanation-messages.ts";
import { LEASE_NOUN } from "../domain/lease-document.ts";
import type { ReservationExplanation } from "../adapters/reservation-messages.ts";
import { askAboutLeases } from "../kinds/lease-refusals.ts";
import type { FormattedAnswer } from "../kinds/resource.ts";
import { showReservation } from "./show-reservation.ts";

/** Explains the phase of a lease; for an id that only the ledger knows, explains the reservations of its owner. */
export async function explainLeaseOrOwner(cli: Cli, connected: ConnectedCli, id: string): Promise<FormattedAnswer> {
  const found = await findLeaseOrOwner(connected, id);
  if (found.kind === "owner") return showReservation(cli, connected, { kind: LEASE_NOUN, id }, found.reservation);
  const explained = await askLease(connected, id);
  return {
    table: (style) => buildLeaseExplanation(explained, cli.now(), style),
    data: () => buildExplanationRecord(explained),
  };
}

async function askLease({ link }: ConnectedCli, id: string): Promise<ExplainedReservation> {
  const leases = link.client(LeaseService);
  const { reason, ...rest } = await askAboutLeases({ link }, () =>
    askExplanation(
      { service: "provision-engine", area: LeaseService.area, stop: link.stop },
      (options) => leases.explainLease({ id }, options),
      (options) => leases.getLease({ id }, options),
    ),
  );
  return { ...rest, reason: { ...reason, message: escapeControls(reason.message) } };
}

/** `reservation` is undefined if the ledger does not know the id and no engine answers. */
type LeaseOrOwner =
  { readonly kind: "lease" } | { readonly kind: "owner"; readonly reservation: ReservationExplanation | undefined };

/**
 * Asks the engines and the ledger concurrently, and returns the first answer that knows the id. Waits for a service that does not answer only if the other one
 * does not know the id. Rejects with the refusal of the engine if neither knows it.
 */
async function findLeaseOrOwner({ link }: ConnectedCli, id: string): Promise<LeaseOrOwner> {
  const done = new AbortController();
  const stop = AbortSignal.any([link.stop, done.signal]);
  const engine = makeLeaseCalls({ ...link, stop }, STATUS_TIMEOUT_MS).get(id);
  const ledger = openMusterServices(link, stop).explanation(LEASE_NOUN, id);
  try {
    return await Promise.any([
      engine.then((): LeaseOrOwner => ({ kind: "lease" })),
      ledger.then((reservation): LeaseOrOwner => ({ kind: "owner", reservation })),
    ]);
  } catch {
    // Both have failed, so the command waits for neither.
    if (await isUnknown(engine)) await askAboutLeases({ link }, () => engine);
    return { kind: "owner", reservation: (await isUnknown(ledger)) ? undefined : await ledger };
  } finally {
    done.abort();
  }
}

async function isUnknown(answer: Promise<unknown>): Promise<boolean> {
  try {
    await answer;
    return false;
  } catch (error) {
    return findFault(error)?.code === "not_found";
  }
}
