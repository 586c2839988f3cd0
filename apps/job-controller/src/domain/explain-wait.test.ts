import { expect, it } from "vitest";
import { explainWait } from "./explain-wait.ts";

const REASON = { code: "POOL_AVAILABILITY", pool: "gpu", requested: 4, available: 1, ahead: 0 };

it.each([
  [REASON, "pool gpu has 1 machine free, 4 are needed"],
  [{ ...REASON, ahead: 2 }, "pool gpu has 1 machine free, 4 are needed; 2 requests are ahead"],
  [
    { ...REASON, code: "HELD_FOR_OLDER", available: 9, ahead: 1 },
    "pool gpu has 9 machines free, and they are kept for an older request; 1 request is ahead",
  ],
  [{ ...REASON, code: "POOLS_NOT_KNOWN_YET", pool: "" }, "the pools are not known yet"],
  [{ ...REASON, code: "SOMETHING_NEW" }, "SOMETHING_NEW in pool gpu"],
  [{ ...REASON, code: "SOMETHING_NEW", pool: "", ahead: 3 }, "SOMETHING_NEW; 3 requests are ahead"],
])("explains %j", (reason, text) => {
  expect(explainWait(reason)).toBe(text);
});
