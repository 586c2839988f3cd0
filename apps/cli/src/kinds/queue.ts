import type { ConnectedCli } from "../cli.ts";
import {
  buildQueueDescription,
  buildQueueRecord,
  buildQueueTable,
  type ShownQueue,
} from "../domain/build-queue-views.ts";
import { listSome } from "../domain/list-some.ts";
import { orderReservations } from "../domain/order-reservations.ts";
import { placeQueues } from "../domain/queue-tree.ts";
import { requireListed } from "./require-listed.ts";
import type { ResourceRow } from "./resource.ts";

const MAX_NAMED_QUEUES = 20;

/** Limits on how much of each pool a team may use, arranged in trees. */
export const QUEUE: ResourceRow<ShownQueue> = {
  noun: "queue",
  plural: "queues",
  aliases: ["mq"],
  shortName: "mq",
  none: "no queues: no quota limits work",
  list: listQueues,
  get: async (connected, name) => {
    const [queues, reservations] = await Promise.all([listQueues(connected), connected.services.reservations()]);
    const names = queues.map((queue) => queue.name);
    const known = names.length === 0 ? "no queue exists" : `known queues: ${listSome(names, MAX_NAMED_QUEUES, ",")}`;
    const queue = requireListed("queue", queues, name, known);
    return { ...queue, reservations: orderReservations(reservations.filter((each) => each.queue === name)) };
  },
  nameOf: ({ name }) => name,
  table: (queues, { nowMs, style }, only) =>
    only === undefined
      ? buildQueueTable(queues, style)
      : queues.flatMap((queue) => buildQueueDescription(queue, nowMs, style)),
  record: buildQueueRecord,
  describe: (queue, { nowMs, style }) => buildQueueDescription(queue, nowMs, style),
};

async function listQueues({ services }: ConnectedCli): Promise<readonly ShownQueue[]> {
  return placeQueues(await services.queues());
}
