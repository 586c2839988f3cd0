import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import type { Queue } from "../domain/ledger/queue.ts";
import { queueCodec } from "./queue-messages.ts";
import { followQueues } from "./queue-view.ts";

const { Queue: message } = muster.reservation.v1;

function viewOf(key: string, queue: muster.reservation.v1.Queue) {
  const value = queueCodec.decode(queueCodec.encode(queue));
  return { entries: () => [{ key, value, revision: 1 }], onChange: () => () => undefined };
}

it("reads a queue whose fields have the defaults of its message: no weight, no parent, no problem", () => {
  const queue: Queue = {
    name: "q",
    weightMilli: 0,
    quotas: new Map(),
    strategy: "BestEffortFIFO",
    stopPolicy: "None",
  };
  using queues = followQueues(viewOf("q", message.create({ name: "q" })));
  expect(queues.list()).toStrictEqual([queue]);
});

it("names a queue after its key, and keeps its problem", () => {
  using queues = followQueues(viewOf("q", message.create({ name: "other", weightMilli: 1000, strategy: "Newest" })));
  expect(queues.list()).toMatchObject([{ name: "q", problem: "the strategy Newest is not known" }]);
});
