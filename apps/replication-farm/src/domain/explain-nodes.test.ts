import { expect, it } from "vitest";
import { readLabelSelector } from "@muster/names";
import { makeSpec, makePlacedSet } from "../../test/a-set.ts";
import { findNodes, type ObservedNode } from "./eligible-nodes.ts";
import { explainNodes } from "./explain-nodes.ts";

function sight(name: string, rest: Partial<ObservedNode> = {}): ObservedNode {
  return { name, labels: { disk: "ssd" }, ready: true, schedulable: true, unreadySinceMs: undefined, ...rest };
}

function explained(
  placed: readonly string[],
  sights: readonly ObservedNode[],
  taken: Readonly<Record<string, string>> = {},
  foreign: ReadonlyMap<string, string> = new Map(),
) {
  const set = makePlacedSet(placed, { spec: makeSpec({ nodeSelector: "disk=ssd" }) });
  const nodes = findNodes(readLabelSelector("f", "disk=ssd"), sights, { nowMs: 10, graceMs: 5, foreign });
  return explainNodes(set, sights, nodes, new Map(Object.entries(taken))).map(({ node, code, message }) =>
    [node, code, message].join(" ").trim(),
  );
}

it.each<[title: string, sight: ObservedNode, taken: Record<string, string>, verdict: string]>([
  ["free", sight("n"), {}, "n FREE"],
  ["taken by another set", sight("n"), { n: "web-2" }, "n TAKEN web-2 runs pod id web there"],
  ["not selected", sight("n", { labels: {} }), {}, "n NOT_SELECTED its labels do not match disk=ssd"],
  ["cordoned", sight("n", { schedulable: false }), {}, "n CORDONED it is cordoned"],
  ["not ready", sight("n", { ready: false, unreadySinceMs: 8 }), {}, "n NOT_READY it is not ready"],
])("a node without a replica is %s", (_title, node, taken, verdict) => {
  expect(explained([], [node], taken)).toEqual([verdict]);
});

it.each<[title: string, sights: readonly ObservedNode[], verdict: string]>([
  ["is on an eligible node", [sight("n")], "n REPLICA"],
  ["is on a node that is cordoned", [sight("n", { schedulable: false })], "n REPLICA it is cordoned"],
  [
    "is on a node that may become ready again",
    [sight("n", { ready: false, unreadySinceMs: 8 })],
    "n REPLICA it is not ready, which is allowed for a while",
  ],
  ["is on a node that is gone", [], "n REPLICA the node is gone"],
])("a replica %s", (_title, sights, verdict) => {
  expect(explained(["n"], sights)).toEqual([verdict]);
});

it("names the pod without a set that blocks a node for a set, with a replica and without one", () => {
  const foreign = new Map([
    ["a", "web-8"],
    ["b", "web-9"],
  ]);
  expect(explained(["a"], [sight("a"), sight("b")], { b: "web-9" }, foreign)).toEqual([
    "a REPLICA pod web-8, which belongs to no replica set, runs pod id web there",
    "b TAKEN pod web-9, which belongs to no replica set, runs pod id web there",
  ]);
});

it("reports a pool's machine that the set does not hold", () => {
  const set = makePlacedSet([], { spec: makeSpec({ nodeSelector: "", pool: "workers" }) });
  const nodes = { eligible: new Set<string>(), usable: new Set(["n"]), unusable: new Map(), foreign: new Map() };
  expect(explainNodes(set, [sight("n")], nodes, new Map())).toEqual([
    { node: "n", code: "NOT_GRANTED", message: "the set does not hold this machine of pool workers" },
  ]);
});

it("puts nodes that are not selected last, and orders the rest by name", () => {
  const sights = [sight("a", { labels: {} }), sight("c"), sight("b"), sight("d")];
  expect(explained(["d"], sights).map((line) => line.split(" ")[0])).toEqual(["d", "b", "c", "a"]);
});
