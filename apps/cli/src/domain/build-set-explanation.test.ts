import { expect, it } from "vitest";
import { makeReplicaSet } from "../../test/a-replica-set.ts";
import { buildSetExplanation } from "./build-set-explanation.ts";
import type { ExplainedSet, ReplicaSet } from "../adapters/farm-messages.ts";

const STYLE = { columns: 80, colours: false };

function node(name: string, code: string, message = "") {
  return { node: name, code, message };
}

function explained(set: Partial<ReplicaSet>, rest: Partial<ExplainedSet> = {}): ExplainedSet {
  const reason = { code: "READY", message: "2 wanted, 2 placed, 2 ready", next: "" };
  return {
    ...{ set: makeReplicaSet(set), phase: "READY", reason },
    ...{ roll: undefined, nodesKnown: true, nodes: [], nodesMore: 0 },
    ...rest,
  };
}

it("shows the nodes that matter, and only counts those that are not selected", () => {
  const nodes = [
    node("n-1", "REPLICA"),
    node("n-3", "CORDONED", "it is cordoned"),
    ...["a", "b", "c", "d"].map((name) => node(name, "NOT_SELECTED")),
  ];
  const lines = buildSetExplanation(explained({}, { nodes, nodesMore: 6 }), STYLE);
  expect(lines).toEqual([
    "replica-set web READY",
    "  2 wanted, 2 placed, 2 ready",
    "owner: farm-1",
    "",
    "NODE  WHAT      POD         HEALTH  WHY",
    "n-1   REPLICA   web-of-n-1  READY",
    "n-3   CORDONED  -           -       it is cordoned",
    "10 other nodes (a, b, c, ...) do not match disk=ssd",
  ]);
});

const ON_POOL = { ...makeReplicaSet().spec, nodeSelector: "", pool: "gpu" };

it("names no selector for the nodes of a pool, and only counts them", () => {
  const nodes = [node("n-3", "NOT_GRANTED", "it holds none"), node("n-4", "NOT_SELECTED")];
  expect(buildSetExplanation(explained({ spec: ON_POOL }, { nodes }), STYLE).at(-1)).toBe(
    "2 other nodes (n-3, n-4) are no machines of pool gpu that it has",
  );
});

it("prints the reason and the next step, and no nodes if the farm knows none", () => {
  const reason = { code: "NODES_UNKNOWN", message: "the watcher is silent", next: "`muster doctor` checks it" };
  expect(buildSetExplanation(explained({ farm: "" }, { reason, nodesKnown: false }), STYLE)).toEqual([
    "replica-set web READY: NODES_UNKNOWN",
    "  the watcher is silent",
    "next: `muster doctor` checks it",
    "owner: no farm",
  ]);
});
