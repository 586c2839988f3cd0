import { bucketKeys } from "@muster/proto";
import { expect, it } from "vitest";
import type { NodeEntry } from "./messages.ts";
import { nodeView } from "./node-view.ts";

const FRESH_MS = 120_000;
const NOW_MS = 1_700_000_000_000;
const HOUR_MS = 3_600_000;

it.each([
  ["as soon as it is written", 0, 0, true],
  ["until it is too old", -FRESH_MS, 0, true],
  ["not when it is too old", -FRESH_MS - 1, 0, false],
  ["not when it is too far ahead", FRESH_MS + 1, 0, false],
  ["not when the time comes that it names, and it was never renewed", HOUR_MS, HOUR_MS, false],
])("believes that all nodes are known %s", (_title, aheadMs, laterMs, known) => {
  const value: NodeEntry = { kind: "complete", atMs: NOW_MS + aheadMs };
  let monotonicMs = 5;
  const nodes = {
    get: (key: string) => (key === bucketKeys.nodesComplete ? { key, value, revision: 1 } : undefined),
    entries: () => [],
    onChange: () => () => undefined,
  };
  const view = nodeView(nodes, { poolLabel: "pool", nodesFreshMs: FRESH_MS }, () => monotonicMs);
  monotonicMs += laterMs;
  expect(view.areAllKnown(NOW_MS + laterMs)).toBe(known);
});
