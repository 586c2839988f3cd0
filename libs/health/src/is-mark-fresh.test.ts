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
])("believes a mark of %s, as far from now as it may be, on either side: %s", (atMs, believed) => {
  expect(isMarkFresh(atMs, 1000, NOW)).toBe(believed);
});
