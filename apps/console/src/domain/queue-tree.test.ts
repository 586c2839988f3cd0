import { expect, it } from "vitest";
import type { QueueState, Reservation } from "../adapters/messages.ts";
import { barsOfQueue, describeQueueProblem, placeQueues, waitingIn } from "./queue-tree.ts";

const queue = (name: string, parent = ""): QueueState => ({ queue: { name, parent } }) as QueueState;
const placed = (...queues: readonly QueueState[]) =>
  placeQueues(queues)
    .map(({ name, depth }) => `${depth}${name}`)
    .join(" ");

it.each<[title: string, placed: string, expected: string]>([
  ["places queues below their parents, by name", placed(queue("c", "a"), queue("b", "a"), queue("a")), "0a 1b 1c"],
  [
    "places deeper ones after their parents",
    placed(queue("a"), queue("b", "a"), queue("c", "b"), queue("d")),
    "0a 1b 2c 0d",
  ],
  ["takes a queue whose parent is missing as a root", placed(queue("b", "gone"), queue("a")), "0a 0b"],
  ["places circles once", placed(queue("a", "b"), queue("b", "a")), "0a 1b"],
  ["places a queue below itself once", placed(queue("a", "a")), "0a"],
])("%s", (_, order, expected) => {
  expect(order).toBe(expected);
});

it.each([
  ["PARENT_MISSING", "its parent does not exist"],
  ["CYCLE", "it is below itself"],
  ["TOO_DEEP", "its tree is too deep"],
  ["UNREADABLE", "its resource cannot be read"],
  ["HELD", "it is held"],
  ["OF_A_LATER_VERSION", "OF_A_LATER_VERSION"],
])("explains the problem %s", (problem, text) => {
  expect(describeQueueProblem(problem)).toBe(text);
});

it("has one bar for each resource that is used, borrowed or owned", () => {
  const use = (amounts: Record<string, number>) => [{ pool: "gpu", amounts }];
  const state = { used: use({ gpus: 3, cpu: 12 }), borrowed: use({ cpu: 2 }), quota: use({ cpu: 10 }) };
  expect(barsOfQueue(state as unknown as QueueState)).toEqual([
    { pool: "gpu", resource: "cpu", used: 12, nominal: 10, borrowed: 2 },
    { pool: "gpu", resource: "gpus", used: 3, nominal: 0, borrowed: 0 },
  ]);
});

it("lists waiting requests in the order of the ledger", () => {
  const waits = (id: string, priority: number, sequence: number, of = "a", state = "WAITING"): Reservation =>
    ({ id, priority, sequence, queue: of, state }) as Reservation;
  const all = [
    waits("late", 0, 3),
    waits("early", 0, 1),
    waits("urgent", 5, 4),
    waits("other", 9, 0, "b"),
    waits("has", 9, 0, "a", "GRANTED"),
  ];
  expect(waitingIn("a", all).map(({ id }) => id)).toEqual(["urgent", "early", "late"]);
});
