import { isMarkFresh } from "@muster/health";
import { expect, it } from "vitest";
import { MARK_FRESH_MS } from "./nodes.ts";

const NOW_MS = 1_700_000_000_000;

it.each<[string, number, boolean]>([
  ["has just looked", NOW_MS, true],
  ["has missed two looks", NOW_MS - 90_000, true],
  ["has missed three", NOW_MS - 90_001, false],
  ["has a clock that is a little ahead", NOW_MS + 90_000, true],
  ["has a clock that is far ahead, and may have ended long ago", NOW_MS + 90_001, false],
  ["has never looked", -Infinity, false],
])("believes a watcher about lost nodes, or not, that %s", (_title, markedMs, fresh) => {
  expect(isMarkFresh(markedMs, MARK_FRESH_MS, NOW_MS)).toBe(fresh);
});
