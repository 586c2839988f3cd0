import { expect, it } from "vitest";
import { isMarkFresh } from "./is-mark-fresh.ts";

const NOW = 1_000_000;

it.each([
  [undefined, false],
  [NOW - 1001, false],
  [NOW - 1000, true],
  [NOW, true],
  [NOW + 1000, true],
  [NOW + 1001, false],
])("accepts a mark of %s at the maximum distance from now, on either side: %s", (atMs, believed) => {
  expect(isMarkFresh(atMs, 1000, NOW)).toBe(believed);
});
