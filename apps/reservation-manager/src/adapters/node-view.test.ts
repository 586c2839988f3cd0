import { bucketKeys, muster } from "@muster/proto";
import { expect, it } from "vitest";
import type { NodeFacts } from "../domain/ledger/machines.ts";
import type { NodeEntry } from "./messages.ts";
import { makeNodeView } from "./node-view.ts";

const FRESH_MS = 120_000;
const NOW_MS = 1_700_000_000_000;
const HOUR_MS = 3_600_000;

it.each([
  ["as soon as the mark is written", 0, 0, true],
  ["until the mark is too old", -FRESH_MS, 0, true],
  ["not if the mark is too old", -FRESH_MS - 1, 0, false],
  ["not if the mark is too far ahead", FRESH_MS + 1, 0, false],
  ["not at the time of a mark that was ahead and never renewed", HOUR_MS, HOUR_MS, false],
])("regards all nodes as known %s", (_title, aheadMs, laterMs, known) => {
  const value: NodeEntry = { kind: "complete", atMs: NOW_MS + aheadMs };
  let monotonicMs = 5;
  const nodes = {
    get: (key: string) => (key === bucketKeys.nodesComplete ? { key, value, revision: 1 } : undefined),
    entries: () => [],
    onChange: () => () => undefined,
  };
  const view = makeNodeView(nodes, { poolLabel: "pool", nodesFreshMs: FRESH_MS }, () => monotonicMs);
  monotonicMs += laterMs;
  expect(view.areAllKnown(NOW_MS + laterMs)).toBe(known);
});

it("keeps the amounts of a node when an older watcher omits them, but not for another node of the same name", () => {
  const foreign = { pods: 1, requests: { cpu: 500 }, examples: ["web/shop"] };
  let state: object = { uid: "one", allocatable: { cpu: 4000, pods: 10 }, foreign };
  const nodes = {
    get: (key: string) => {
      const written = muster.watch.v1.NodeState.create({ name: "n", labels: { pool: "a" }, ready: true, ...state });
      return { key, value: { kind: "node", state: written } as const, revision: 1 };
    },
    entries: () => [],
    onChange: (listener: (name: string) => void) => {
      listen = listener;
      return () => undefined;
    },
  };
  let listen: (name: string) => void = () => undefined;
  let facts: NodeFacts | undefined;
  makeNodeView(nodes, { poolLabel: "pool", nodesFreshMs: FRESH_MS }, () => 0).follow({
    observe: (_name, seen) => (facts = seen),
    nodesMarked: () => undefined,
  });
  listen("n");
  const { allocatable } = facts ?? {};
  expect(allocatable?.get("cpu")).toBe(4000);
  state = { uid: "one", schedulable: true };
  listen("n");
  expect(facts).toMatchObject({ schedulable: true, allocatable, foreign: { pods: 1 } });
  state = { uid: "two" };
  listen("n");
  expect(facts).toMatchObject({ allocatable: undefined, foreign: { pods: 0 } });
});
