import { expect, it } from "vitest";
import { aDemand, aNode, NOW } from "../../test/scaling-snapshots.ts";
import { classOf } from "./acceptance.ts";
import { observeMismatches, type Mismatch } from "./observe-mismatches.ts";

const terms = [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }];
const demand = aDemand("a", { selection: { terms, tolerations: [] } });
const joined = (disk: string) => ({ joined: { name: "k1", labels: { disk }, taints: [] } });
const made = aNode("n1", { boundTo: "a" });
const found: Mismatch = {
  pool: "gpu",
  instanceType: "large",
  demandClass: classOf(demand),
  node: "n1",
  untilMs: NOW + 10,
};
const observe = (
  before: readonly Mismatch[],
  nodes: Parameters<typeof observeMismatches>[1]["nodes"],
  { demands = [demand], nowMs = NOW } = {},
) => observeMismatches(before, { nodes, demands, nowMs, forMs: 10 });

it("remembers a node that its demand does not accept, until the time is over", () => {
  const seen = observe([], [{ ...made, ...joined("hdd") }]);
  expect(seen).toEqual([found]);
  expect(observe(seen, [])).toEqual([found]);
  expect(observe(seen, [], { demands: [] })).toEqual([found]);
  expect(observe(seen, [], { nowMs: NOW + 10 })).toEqual([]);
  expect(observe(seen, [], { nowMs: NOW + 10, demands: [] })).toEqual([]);
});

it("forgets it when a node of the type is accepted, as one that gets its label late", () => {
  expect(observe([found], [{ ...made, ...joined("ssd") }])).toEqual([]);
  expect(observe([found], [{ ...aNode("n2", { instanceType: "huge" }), ...joined("ssd") }])).toEqual([found]);
});

it("concludes nothing from a node that has not joined, is bound to nothing, or is accepted", () => {
  const unbound = { ...aNode("n2"), ...joined("hdd") };
  expect(observe([], [made, unbound, { ...made, ...joined("ssd") }])).toEqual([]);
  expect(observe([], [{ ...made, ...joined("hdd") }], { demands: [aDemand("a")] })).toEqual([]);
});
