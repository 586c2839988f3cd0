import { readDemandScaling } from "../adapters/node-calls.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { isWaitingForNodes } from "@muster/ledger-client/explanation";
import { buildOwnerExplanation, buildOwnerRecord } from "../domain/build-explanation.ts";
import { EXIT } from "../domain/decide-exit.ts";
import type { ReservationExplanation } from "../adapters/reservation-messages.ts";
import type { FormattedAnswer } from "../kinds/resource.ts";
import { readQueueWait } from "./read-queue-wait.ts";

/**
 * Shows the machines that an owner holds or waits for. Throws CommandError if the ledger does not know the owner: before its first request, and after its
 * release.
 */
export async function showReservation(
  cli: Cli,
  { link, services }: Pick<ConnectedCli, "link" | "services">,
  { kind, id }: { readonly kind: string; readonly id: string },
  reservation: ReservationExplanation | undefined,
): Promise<FormattedAnswer> {
  if (reservation === undefined)
    throw new CommandError(EXIT.refused, `${kind} ${id} holds no machines and waits for none`, {
      hint: "`muster get reservations` lists the owners that do",
    });
  const { ownerKind, ownerId } = reservation.reservation;
  const scaling = isWaitingForNodes(reservation)
    ? await readDemandScaling(link, { kind: ownerKind, id: ownerId })
    : undefined;
  const queue = await readQueueWait({ services }, reservation);
  return {
    table: (style) => buildOwnerExplanation(reservation, scaling, cli.now(), style, queue),
    data: () => buildOwnerRecord(`${kind}/${id}`, reservation, scaling, queue),
  };
}
