import fc from "fast-check";
import { expect, it } from "vitest";
import { formatDuration } from "./format-duration.ts";
import { MAX_DURATION_MS, parseDuration } from "./parse-duration.ts";

it.each([
  ["10m", 600_000],
  ["1h30m", 5_400_000],
  ["2.5s", 2500],
  ["500ms", 500],
  ["1d", 86_400_000],
  ["0s", 0],
  ["10", undefined],
  ["", undefined],
  ["m", undefined],
  ["-5s", undefined],
  ["5 s", undefined],
  ["5S", undefined],
  ["367d", undefined],
  ["9".repeat(100) + "s", undefined],
])("reads %s as %s ms", (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

it("reads every duration as it wrote it", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: MAX_DURATION_MS }), (ms) => {
      expect(parseDuration(formatDuration(ms))).toBe(ms);
    }),
  );
});
