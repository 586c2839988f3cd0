import { describe, expect, it } from "vitest";
import { buildNodeState, buildNodeRules, type NodeState } from "./node-state.ts";
import { NO_USES, type NodeUse } from "./node-use.ts";

const use: NodeUse = { pods: 1, requests: { cpu: 100, memory: 1 }, examples: ["ns/a"] };
const owner = { kind: "job", id: "j" };

const node = buildNodeState(
  {
    name: "n",
    uid: "nu",
    resourceVersion: 5,
    createdAtMs: 0,
    labels: { zone: "a", pool: "drivers" },
    ready: true,
    schedulable: true,
    cordoned: false,
    unopened: false,
    taints: [{ key: "gpu", value: "a100", effect: "NoSchedule" }],
    allocatable: { cpu: 4000, pods: 110 },
  },
  {
    uses: {
      occupants: [
        { kind: "job", id: "j" },
        { kind: "session", id: "s" },
      ],
      overhead: use,
      foreign: use,
      shared: [{ owner, use }],
    },
    occupantsVersion: 10,
    nowMs: 1000,
  },
);

describe("states of a node", () => {
  const rules = buildNodeRules({ version: 20, listedAtMs: 0 });

  it.each<[string, Partial<NodeState>, boolean]>([
    ["in another order of labels", { labels: { pool: "drivers", zone: "a" } }, true],
    ["in another version, later", { resourceVersion: 6, occupantsVersion: 11, observedAtMs: 2000 }, true],
    ["with another label", { labels: { pool: "drivers", zone: "b" } }, false],
    ["in another order of resources", { allocatable: { pods: 110, cpu: 4000 } }, true],
    ["in another order of requests", { foreign: { ...use, requests: { memory: 1, cpu: 100 } } }, true],
    ["with another allocatable amount", { allocatable: { cpu: 4001, pods: 110 } }, false],
    ["with another allocatable resource", { allocatable: { cpu: 4000, pods: 110, memory: 0 } }, false],
    ["with another number of foreign pods", { foreign: { ...use, pods: 2 } }, false],
    ["with another foreign request", { foreign: { ...use, requests: { cpu: 200, memory: 1 } } }, false],
    ["with another example", { foreign: { ...use, examples: ["ns/b"] } }, false],
    ["with other overhead", { overhead: { ...use, pods: 2 } }, false],
    ["with other use of an owner", { shared: [{ owner, use: { ...use, pods: 2 } }] }, false],
    ["with another owner that shares it", { shared: [{ owner: { kind: "job", id: "k" }, use }] }, false],
    ["without the owner that shares it", { shared: [] }, false],
    ["with another uid", { uid: "other" }, false],
    ["that is not ready", { ready: false }, false],
    ["that is not schedulable", { schedulable: false }, false],
    ["that is cordoned", { cordoned: true }, false],
    ["with its startup taint", { unopened: true }, false],
    ["without its taint", { taints: [] }, false],
    ["with another value of its taint", { taints: [{ key: "gpu", value: "h100", effect: "NoSchedule" }] }, false],
    ["that is deleted", { deleted: true }, false],
    ["with another occupant", { occupants: [{ kind: "job", id: "k" }, ...node.occupants.slice(1)] }, false],
    ["with another kind of occupant", { occupants: [{ kind: "set", id: "j" }, ...node.occupants.slice(1)] }, false],
  ])("%s are the same: %s", (_title, part, same) => {
    expect(rules.same(node, { ...node, ...part })).toBe(same);
  });

  it("take node and occupants each from the later version", () => {
    const desired = { ...node, ready: false, occupants: [], occupantsVersion: 20, resourceVersion: 6 };
    const merge = (newer: boolean, part: Partial<NodeState> = {}) =>
      rules.merge({ published: { ...node, ...part }, desired, newer });
    expect(merge(true)).toEqual(desired);
    expect(merge(false)).toEqual({ ...node, occupants: [], occupantsVersion: 20 });
    expect(merge(true, { occupantsVersion: 21 })).toEqual({
      ...desired,
      occupants: node.occupants,
      occupantsVersion: 21,
    });
    expect(merge(false, { deleted: true })).toEqual({ ...node, deleted: true });
  });

  it("take the allocatable amounts with the node, and the uses with the occupants", () => {
    const desired = { ...node, allocatable: { cpu: 1 }, ...NO_USES, occupantsVersion: 20 };
    const { overhead, foreign, shared, occupants, occupantsVersion } = node;
    const uses = { overhead, foreign, shared, occupants, occupantsVersion };
    expect(rules.merge({ published: node, desired, newer: false })).toEqual({
      ...desired,
      allocatable: node.allocatable,
    });
    const ahead = { ...node, occupantsVersion: 21 };
    expect(rules.merge({ published: ahead, desired, newer: true })).toEqual({
      ...desired,
      ...uses,
      occupantsVersion: 21,
    });
  });

  it("keep the taints that an older version of the watcher omits", () => {
    const tainted = { ...node, schedulable: false };
    const published = { ...tainted, taints: [] };
    expect(rules.merge({ published, desired: tainted, newer: false }).taints).toEqual(node.taints);
    expect(rules.merge({ published, desired: { ...tainted, taints: [] }, newer: false }).taints).toEqual([]);
    const untainted = { ...node, taints: [] };
    expect(rules.merge({ published: untainted, desired: tainted, newer: false }).taints).toEqual([]);
  });

  it("take everything from a newer node of the same name", () => {
    const desired = { ...node, uid: "later", occupants: [], occupantsVersion: 20 };
    expect(rules.merge({ published: { ...node, occupantsVersion: 30 }, desired, newer: true })).toBe(desired);
    expect(rules.merge({ published: { ...node, uid: "x", occupantsVersion: 30 }, desired, newer: false })).toEqual({
      ...node,
      uid: "x",
      occupantsVersion: 30,
    });
  });

  it("that is gone are neither ready nor occupied", () => {
    expect(rules.gone(node)).toEqual({ ...node, ready: false, schedulable: false, ...NO_USES, deleted: true });
  });
});
