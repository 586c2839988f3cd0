import { expect, it } from "vitest";
import { isLost, type NodeFact } from "./decide-lost.ts";

const NOW_MS = 1_700_000_000_000;
const LOST_AFTER_MS = 120_000;
const FINE = { ready: true, schedulable: true, deleted: false, observedAtMs: 0 };
const CLOSED = { ...FINE, schedulable: false };
const SILENT = { ...FINE, ready: false };
const LATELY = { observedAtMs: NOW_MS - LOST_AFTER_MS + 1 };

it.each<[string, NodeFact | undefined, boolean, boolean]>([
  ["nobody knows", undefined, true, true],
  ["is gone", { ...FINE, deleted: true, observedAtMs: NOW_MS }, true, true],
  ["is fine", FINE, false, false],
  ["is silent for too long", SILENT, true, true],
  ["has fallen silent", { ...SILENT, ...LATELY }, true, false],
  ["was closed before a pod was put there", CLOSED, false, true],
  ["was closed lately, and may be opened again", { ...CLOSED, ...LATELY }, false, false],
  ["was closed while pods of the job are there", CLOSED, true, false],
  ["was closed, and is silent with the pods there", { ...CLOSED, ready: false }, true, true],
])("tells whether a node is lost that %s", (_what, node, occupied, lost) => {
  expect(isLost(node, { nowMs: NOW_MS, lostAfterMs: LOST_AFTER_MS, occupied })).toBe(lost);
});
