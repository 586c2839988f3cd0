import { expect, it } from "vitest";
import { explainWait } from "./explain-wait.ts";

const REASON = { code: "POOL_AVAILABILITY", pool: "gpu", requested: 4 };

it.each([
  [REASON, "4 machines of pool gpu are needed, and fewer are free"],
  [{ ...REASON, requested: 1 }, "1 machine of pool gpu is needed, and none is free"],
  [{ ...REASON, code: "HELD_FOR_OLDER" }, "the free machines of pool gpu are kept for an older request"],
  [{ ...REASON, code: "POOLS_NOT_KNOWN_YET", pool: "" }, "the pools are not known yet"],
  [{ ...REASON, code: "SOMETHING_NEW" }, "SOMETHING_NEW in pool gpu"],
  [{ ...REASON, code: "SOMETHING_NEW", pool: "" }, "SOMETHING_NEW"],
])("explains %j without a number that changes while the job waits", (reason, text) => {
  expect(explainWait(reason)).toBe(text);
});
