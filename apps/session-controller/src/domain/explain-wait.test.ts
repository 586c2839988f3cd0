import { expect, it } from "vitest";
import { explainReason } from "./explain-wait.ts";
import type { WaitReason } from "./snapshot.ts";

const numbers = { pool: "workers", requested: 3, available: 1, ahead: 0 };

it.each<[WaitReason | undefined, string]>([
  [undefined, "the ledger has not said why"],
  [{ ...numbers, code: "POOL_AVAILABILITY" }, "pool workers has 1 machine free, 3 are needed"],
  [
    { ...numbers, code: "HELD_FOR_OLDER" },
    "machines of pool workers are kept for a request that has waited for too long",
  ],
  [
    { ...numbers, code: "CONCURRENCY_LIMIT", ahead: 2 },
    "as many sessions as SESSION_EXECUTORS allows are running; 2 requests are ahead",
  ],
  [{ ...numbers, code: "POOLS_NOT_KNOWN_YET" }, "the ledger does not know the nodes yet"],
  [{ ...numbers, code: "OTHER" }, "the ledger gives a reason that is not known here"],
])("explains %j", (because, text) => {
  expect(explainReason(because)).toBe(text);
});
