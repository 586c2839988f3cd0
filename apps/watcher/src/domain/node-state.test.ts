import { describe, expect, it } from "vitest";
import { buildNodeState, buildOccupants, nodeRules, occupancyChanges, type NodeState } from "./node-state.ts";
import type { WatchedPod } from "./pod-state.ts";

function pod(part: Partial<WatchedPod> = {}): WatchedPod {
  return {
    owner: { kind: "session", id: "s" },
    component: "server",
    namespace: "ns",
    name: "p",
    uid: "u",
    resourceVersion: 10,
    createdAtMs: 0,
    podIp: "",
    node: "n",
    deleting: false,
    exclusive: true,
    finished: false,
    mainContainer: undefined,
    facts: {},
    ...part,
  };
}

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
  },
  {
    occupants: [
      { kind: "job", id: "j" },
      { kind: "session", id: "s" },
    ],
    occupantsVersion: 10,
    nowMs: 1000,
  },
);

describe("occupants of nodes", () => {
  it("are sorted by kind and id, whatever the order of the pods", () => {
    const owners = ["c", "a", "d", "b"].map((id) => ({ kind: "job", id }));
    const pods = [pod(), ...owners.map((owner) => pod({ owner }))];
    expect(
      buildOccupants(pods)
        .get("n")
        ?.map(({ id }) => id),
    ).toEqual(["a", "b", "c", "d", "s"]);
    expect(buildOccupants(pods.reverse())).toEqual(buildOccupants(pods.reverse()));
  });

  it.each([
    ["shares its node", pod({ exclusive: false })],
    ["has finished", pod({ finished: true })],
    ["has no node", pod({ node: "" })],
  ])("omit a pod that %s", (_title, each) => {
    expect(buildOccupants([each])).toEqual(new Map());
  });
});

describe("changes of occupancy", () => {
  it.each<[string, WatchedPod | undefined, WatchedPod | undefined, readonly string[]]>([
    ["a pod that came", undefined, pod(), ["n"]],
    ["a pod that went", pod(), undefined, ["n"]],
    ["a pod that got its node", pod({ node: "" }), pod(), ["n"]],
    ["a pod that finished", pod(), pod({ finished: true }), ["n"]],
    ["a pod on another node", pod(), pod({ node: "m" }), ["n", "m"]],
    ["another kind of owner", pod(), pod({ owner: { kind: "job", id: "s" } }), ["n", "n"]],
    ["another owner", pod(), pod({ owner: { kind: "session", id: "t" } }), ["n", "n"]],
    ["another state of the same pod", pod(), pod({ resourceVersion: 11, deleting: true }), []],
    ["a pod that shares its node", undefined, pod({ exclusive: false }), []],
    ["no pod", undefined, undefined, []],
  ])("after %s", (_title, before, after, nodes) => {
    expect(occupancyChanges(before, after)).toEqual(nodes);
  });
});

describe("states of a node", () => {
  const rules = nodeRules({ version: 20, listedAtMs: 0 });

  it.each<[string, Partial<NodeState>, boolean]>([
    ["in another order of labels", { labels: { pool: "drivers", zone: "a" } }, true],
    ["in another version, later", { resourceVersion: 6, occupantsVersion: 11, observedAtMs: 2000 }, true],
    ["with another label", { labels: { pool: "drivers", zone: "b" } }, false],
    ["with another uid", { uid: "other" }, false],
    ["that is not ready", { ready: false }, false],
    ["that is not schedulable", { schedulable: false }, false],
    ["that is cordoned", { cordoned: true }, false],
    ["with its startup taint", { unopened: true }, false],
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
    expect(rules.gone(node)).toEqual({ ...node, ready: false, schedulable: false, occupants: [], deleted: true });
  });
});
