import { BATCH_KINDS } from "@muster/names";
import { JobService } from "@muster/proto";
import { unlessMissing } from "@muster/faults";
import { askExplanation } from "../adapters/ask-explanation.ts";
import { readDemandScaling } from "../adapters/node-calls.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { isWaitingForNodes } from "@muster/ledger-client/explanation";
import {
  buildExplanation,
  buildExplanationRecord,
  buildOwnerExplanation,
  buildOwnerRecord,
} from "../domain/build-explanation.ts";
import { EXIT } from "../domain/decide-exit.ts";
import type { ReadOwner } from "../domain/owner.ts";
import type { ReservationExplanation } from "../adapters/reservation-messages.ts";
import type { FormattedAnswer } from "../kinds/resource.ts";
import { readQueueWait } from "./read-queue-wait.ts";

/**
 * Shows the machines that an owner holds or waits for. Throws CommandError if the ledger does not know the owner: before its first request, and after its
 * release. Work of Kubernetes may wait without a request: the job-controller knows why.
 */
export async function showReservation(
  cli: Cli,
  { link, services }: Pick<ConnectedCli, "link" | "services">,
  owner: ReadOwner,
  reservation: ReservationExplanation | undefined,
): Promise<FormattedAnswer> {
  if (reservation === undefined) return showUnreserved(cli, link, owner);
  const { kind, id } = owner;
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

async function showUnreserved(
  cli: Pick<Cli, "now">,
  link: ConnectedCli["link"],
  { kind, id, namespace = link.namespace }: ReadOwner,
): Promise<FormattedAnswer> {
  const isOfKubernetes = BATCH_KINDS.some((each) => each === kind);
  const explained = isOfKubernetes
    ? await unlessMissing(askJobController({ ...link, namespace }, { kind, name: id }))
    : undefined;
  if (explained === undefined)
    throw new CommandError(EXIT.refused, `${kind} ${id} holds no machines and waits for none`, {
      hint: "`muster get reservations` lists the owners that do",
    });
  return {
    table: (style) => buildExplanation(explained, cli.now(), style),
    data: () => buildExplanationRecord(explained),
  };
}

function askJobController(
  { client, stop, namespace = "" }: ConnectedCli["link"],
  named: { readonly kind: string; readonly name: string },
): ReturnType<typeof askExplanation> {
  const jobs = client(JobService);
  const key = { ...named, namespace };
  return askExplanation(
    { service: "job-controller", area: JobService.area, stop },
    (options) => jobs.explainJob({ key }, options),
    (options) => jobs.getJob({ key }, options),
  );
}
