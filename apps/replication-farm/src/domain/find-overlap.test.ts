import { describe, expect, it } from "vitest";
import { aSet, aSpec } from "./a-set.ts";
import type { NodeSight } from "./eligible-nodes.ts";
import { findOverlap } from "./find-overlap.ts";
import type { ReplicaSet } from "./replica-set.ts";

const nodes: NodeSight[] = [
  { name: "a", labels: { disk: "ssd", zone: "1" }, ready: true, schedulable: true, unreadySinceMs: undefined },
  { name: "b", labels: { disk: "hdd", zone: "1" }, ready: true, schedulable: true, unreadySinceMs: undefined },
];
const set = (name: string, nodeSelector: string, rest: Partial<ReplicaSet> = {}): ReplicaSet =>
  aSet({ name, spec: aSpec({ nodeSelector }), ...rest });

describe("two sets of one pod id", () => {
  it.each<[string, ReplicaSet, ReplicaSet, unknown]>([
    ["have one selector", set("new", "disk=ssd"), set("old", "disk=ssd"), { because: "same-selector", nodes: [] }],
    ["one selects everything", set("new", ""), set("old", "disk=ssd"), { because: "selects-everything", nodes: [] }],
    ["share a node", set("new", "zone=1"), set("old", "disk=ssd"), { because: "same-nodes", nodes: ["a"] }],
    ["share none", set("new", "disk=hdd"), set("old", "disk=ssd"), undefined],
    ["one is disabled", set("new", ""), set("old", "", { disabled: true }), undefined],
    ["one is deleted", set("new", ""), set("old", "", { deletion: { keepPods: false, atMs: 1 } }), undefined],
    ["are in one rolling update", set("new", "", { roll: "new" }), set("old", "", { roll: "new" }), undefined],
    ["are one", set("same", ""), set("same", ""), undefined],
  ])("%s", (_case, fresh, old, overlap) => {
    const found = findOverlap(fresh, [old], nodes);
    expect(found).toEqual(overlap === undefined ? undefined : { with: "old", ...(overlap as object) });
  });

  it("do not meet when they have other pod ids, or machines of a pool each", () => {
    const other = aSet({ name: "old", spec: aSpec({ podId: "db", nodeSelector: "" }) });
    expect(findOverlap(set("new", ""), [other], nodes)).toBeUndefined();
    const pooled = (name: string): ReplicaSet => aSet({ name, spec: aSpec({ nodeSelector: "", pool: "p" }) });
    expect(findOverlap(pooled("new"), [pooled("old")], nodes)).toBeUndefined();
  });
});
