import { expect, it } from "vitest";
import { decideLost, type LostReason, type NodeFact } from "./decide-lost.ts";

const NOW_MS = 1_700_000_000_000;
const LOST_AFTER_MS = 120_000;
const FINE = { ready: true, schedulable: true, deleted: false, observedAtMs: 0 };
const CORDONED = { ...FINE, schedulable: false };
const SILENT = { ...FINE, ready: false };
const LATELY = { observedAtMs: NOW_MS - LOST_AFTER_MS + 1 };

it.each<[string, NodeFact | undefined, boolean, LostReason | undefined]>([
  ["is unknown", undefined, true, "gone"],
  ["is gone", { ...FINE, deleted: true, observedAtMs: NOW_MS }, true, "gone"],
  ["is fine", FINE, false, undefined],
  ["has been not ready for too long", SILENT, true, "not-ready"],
  ["has been not ready for a short time", { ...SILENT, ...LATELY }, true, undefined],
  ["was cordoned before a pod was placed there", CORDONED, false, "unschedulable"],
  ["was cordoned lately, and may be uncordoned", { ...CORDONED, ...LATELY }, false, undefined],
  ["was cordoned while pods of the work run on it", CORDONED, true, undefined],
  ["was cordoned and is not ready, with the pods there", { ...CORDONED, ready: false }, true, "not-ready"],
])("decides whether a node is lost that %s", (_what, node, occupied, lost) => {
  expect(decideLost(node, { nowMs: NOW_MS, lostAfterMs: LOST_AFTER_MS, occupied })).toBe(lost);
});
