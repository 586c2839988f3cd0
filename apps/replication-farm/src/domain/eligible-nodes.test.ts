import { describe, expect, it } from "vitest";
import { readLabelSelector } from "@muster/names";
import { findNodes, type ObservedNode } from "./eligible-nodes.ts";

const node = (name: string, rest: Partial<ObservedNode> = {}): ObservedNode => ({
  name,
  labels: { disk: "ssd" },
  ready: true,
  schedulable: true,
  unreadySinceMs: undefined,
  ...rest,
});
const look = { nowMs: 100_000, graceMs: 60_000 };
const names = (set: ReadonlySet<string>): string[] => [...set];

describe("nodes for a set", () => {
  it.each<[string, ObservedNode, boolean, boolean]>([
    ["matches, ready", node("a"), true, true],
    ["has other labels", node("a", { labels: { disk: "hdd" } }), false, true],
    ["is cordoned", node("a", { schedulable: false }), false, false],
    ["has not been ready for a moment", node("a", { ready: false, unreadySinceMs: 50_000 }), true, false],
    [
      "has not been ready for the whole grace period",
      node("a", { ready: false, unreadySinceMs: 40_000 }),
      false,
      false,
    ],
    ["has just become not ready", node("a", { ready: false }), true, false],
  ])("%s", (_case, given, eligible, usable) => {
    const found = findNodes(readLabelSelector("selector", "disk=ssd"), [given], look);
    expect(names(found.eligible)).toEqual(eligible ? ["a"] : []);
    expect(names(found.usable)).toEqual(usable ? ["a"] : []);
  });

  it("exclude those where a pod of the pod id belongs to no set", () => {
    const foreign = new Map([["a", "web-1"]]);
    const found = findNodes(readLabelSelector("selector", ""), [node("a"), node("b")], { ...look, foreign });
    expect(names(found.eligible)).toEqual(["b"]);
    expect(names(found.usable)).toEqual(["a", "b"]);
    expect(found.foreign).toEqual(foreign);
  });

  it("are among the machines of the set where it has a pool", () => {
    const found = findNodes(readLabelSelector("selector", ""), [node("a"), node("b")], {
      ...look,
      among: new Set(["b"]),
    });
    expect(names(found.eligible)).toEqual(["b"]);
  });
});
