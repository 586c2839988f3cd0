import { expect, it } from "vitest";
import { explainWait } from "./explain-wait.ts";

it.each([
  [1, 0, "1 machine of pool a is needed, and none is free"],
  [3, 0, "3 machines of pool a are needed, and fewer are free"],
  [1, 1, "1 part of a machine of pool a is needed, and no machine has room"],
  [2, 2, "2 parts of machines of pool a are needed, and fewer fit"],
  [2, 1, "1 machine and 1 part of a machine of pool a are needed, and fewer fit"],
  [5, 3, "2 machines and 3 parts of machines of pool a are needed, and fewer fit"],
])("explains the wait for %d, %d of them parts", (requested, parts, text) => {
  expect(explainWait({ code: "POOL_AVAILABILITY", pool: "a", requested, parts })).toBe(text);
});

it("explains FRAGMENTED", () => {
  expect(explainWait({ code: "FRAGMENTED", pool: "a", requested: 2, parts: 2 })).toBe(
    "the free amounts of pool a suffice in sum for 2 parts of machines, but not on single machines",
  );
});

const gpus = { pool: "gpu", resource: "nvidia.com/gpu", requested: 8 };
it.each([
  ["WAITING_FOR_QUOTA", undefined, "the quota of the queue a, with what it may borrow, does not suffice now"],
  [
    "WAITING_FOR_QUOTA",
    gpus,
    "8 of nvidia.com/gpu in pool gpu are needed, and the quota of the queue a, with what it may borrow, has less now",
  ],
  [
    "WAITING_FOR_QUOTA",
    { pool: "cpu", resource: "cpu", requested: 1500 },
    "1500m of cpu in pool cpu are needed, and the quota of the queue a, with what it may borrow, has less now",
  ],
  ["KEPT_FOR_OWNER", gpus, "the queue a would have to borrow quota, which is kept for work of the queue that owns it"],
  ["BEHIND_STRICT_HEAD", undefined, "the queue a is StrictFIFO, and another request is first"],
  ["BEHIND_HIGHER_PRIORITY", gpus, "the machines or quota that it needs are kept for a request with a higher priority"],
  [
    "BEHIND_FAIR_SHARE",
    undefined,
    "the machines or quota that it needs are kept for a request of another queue, which borrows less or has a lower share",
  ],
  ["QUEUE_UNKNOWN", undefined, "the queue a does not exist, or has queues below it"],
  ["QUEUE_HELD", undefined, "the queue a admits nothing now; its condition Admitting has the reason"],
])("explains %s with %j", (code, quota, text) => {
  expect(explainWait({ code, pool: "", requested: 1, queue: "a", quota })).toBe(text);
});
