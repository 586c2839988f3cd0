import { expect, it } from "vitest";
import { formatElapsed } from "./format-elapsed.ts";

it.each([
  [0, "0.0s"],
  [12_340, "12.3s"],
  [59_999, "1m00s"],
  [245_000, "4m05s"],
  [3_599_600, "1h00m"],
  [7_620_000, "2h07m"],
  [273_600_000, "3d4h"],
  [-5, "0.0s"],
])("shows %i ms as %s", (ms, text) => {
  expect(formatElapsed(ms)).toBe(text);
});

it.each([
  [0, "<1s"],
  [1000, "1s"],
  [59_000, "59s"],
  [60_000, "1m00s"],
])("shows %i ms between whole seconds as %s", (ms, text) => {
  expect(formatElapsed(ms, "seconds")).toBe(text);
});
