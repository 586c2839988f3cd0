import { expect, it } from "vitest";
import { explainRestart } from "./explain-restart.ts";

it.each([
  [{ number: 3, limit: 6 }, 40_000, "restart 3 of 6 in 40 s: pod a failed"],
  [{ number: 3, limit: 6 }, 39_001, "restart 3 of 6 in 40 s: pod a failed"],
  [{ number: 3, limit: 6 }, 1, "restart 3 of 6 in 1 s: pod a failed"],
  [{ number: 3, limit: 6 }, 0, "restart 3 of 6: pod a failed"],
  [{ number: 3, limit: undefined }, 5000, "restart 3 in 5 s: pod a failed"],
  [{ number: undefined, limit: 6 }, 10_000, "a restart that does not count in 10 s: pod a failed"],
  [{ number: undefined, limit: 6 }, -1, "a restart that does not count: pod a failed"],
])("describes %j, %i ms before it, as: %s", (restart, beforeMs, text) => {
  expect(explainRestart({ ...restart, atMs: 100_000, because: "pod a failed" }, 100_000 - beforeMs)).toBe(text);
});
