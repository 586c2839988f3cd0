import { findFault } from "@muster/faults";
import type { ReservationExplanation } from "../adapters/reservation-messages.ts";
import type { ConnectedCli } from "../cli.ts";
import type { ObservedValue } from "../domain/check.ts";
import { buildQueueWait, isWaitingForQueue, type QueueWait } from "../domain/build-queue-wait.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { placeQueues } from "../domain/queue-tree.ts";

/** Reads the queue that keeps a reservation waiting, or why it cannot be read; undefined if no queue keeps it waiting. */
export async function readQueueWait(
  { services }: Pick<ConnectedCli, "services">,
  explanation: ReservationExplanation | undefined,
): Promise<ObservedValue<QueueWait> | undefined> {
  if (explanation === undefined || !isWaitingForQueue(explanation)) return undefined;
  try {
    const [queues, reservations] = await Promise.all([services.queuesNow(), services.reservationsNow()]);
    return { value: buildQueueWait(explanation, placeQueues(queues), reservations) };
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) throw error;
    return { trouble: describeTrouble(fault) };
  }
}
