import { expect, it } from "vitest";
import { formatDuration } from "./format-duration.ts";

it.each([
  [20_000, "20s"],
  [900_000, "15m"],
  [5_400_000, "1h30m"],
  [2500, "2s500ms"],
  [86_400_000, "1d"],
  [0, "0s"],
])("writes %i ms as %s", (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});
