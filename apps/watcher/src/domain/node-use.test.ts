import type { Amounts } from "@muster/resources";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  areRegrouped,
  buildNodeUses,
  isOwned,
  findChangedNodes,
  type ClusterPod,
  type NodeUses,
  type OtherPod,
} from "./node-use.ts";
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
    requests: new Map(),
    mainContainer: undefined,
    facts: {},
    ...part,
  };
}

function cpu(milli: number): Amounts {
  return new Map([["cpu", milli]]);
}

function other(part: Partial<OtherPod> = {}): OtherPod {
  return { namespace: "apps", name: "o", node: "n", finished: false, group: "foreign", requests: cpu(100), ...part };
}

describe("occupants of nodes", () => {
  it("are sorted by kind and id, whatever the order of the pods", () => {
    const owners = ["c", "a", "d", "b"].map((id) => ({ kind: "job", id }));
    const pods = [pod(), ...owners.map((owner) => pod({ owner }))];
    expect(
      buildNodeUses(pods)
        .get("n")
        ?.occupants.map(({ id }) => id),
    ).toEqual(["a", "b", "c", "d", "s"]);
    expect(buildNodeUses(pods.reverse())).toEqual(buildNodeUses(pods.reverse()));
  });

  it.each([
    ["shares its node", pod({ exclusive: false })],
    ["has finished", pod({ finished: true })],
    ["has no node", pod({ node: "" })],
  ])("omit a pod that %s", (_title, each) => {
    expect(buildNodeUses([each]).get("n")?.occupants ?? []).toEqual([]);
  });
});

describe("changes of use", () => {
  it.each<[string, ClusterPod | undefined, ClusterPod | undefined, readonly string[]]>([
    ["a pod that came", undefined, pod(), ["n"]],
    ["a pod that went", pod(), undefined, ["n"]],
    ["a pod that got its node", pod({ node: "" }), pod(), ["n"]],
    ["a pod that finished", pod(), pod({ finished: true }), ["n"]],
    ["a pod on another node", pod(), pod({ node: "m" }), ["n", "m"]],
    ["another kind of owner", pod(), pod({ owner: { kind: "job", id: "s" } }), ["n", "n"]],
    ["another owner", pod(), pod({ owner: { kind: "session", id: "t" } }), ["n", "n"]],
    ["another state of the same pod", pod(), pod({ resourceVersion: 11, deleting: true }), []],
    ["other requests of a pod that has its node to itself", pod(), pod({ requests: cpu(1) }), []],
    ["a pod that shares its node", undefined, pod({ exclusive: false }), ["n"]],
    ["a pod that shares its node from now on", pod(), pod({ exclusive: false }), ["n", "n"]],
    ["other requests", pod({ exclusive: false }), pod({ exclusive: false, requests: cpu(1) }), ["n", "n"]],
    ["equal requests", pod({ exclusive: false, requests: cpu(1) }), pod({ exclusive: false, requests: cpu(1) }), []],
    ["a foreign pod that came", undefined, other(), ["n"]],
    ["a foreign pod that went", other(), undefined, ["n"]],
    ["a foreign pod that got its node", other({ node: "" }), other(), ["n"]],
    ["a foreign pod that finished", other(), other({ finished: true }), ["n"]],
    ["another group", other(), other({ group: "overhead" }), ["n", "n"]],
    ["other requests of a foreign pod", other(), other({ requests: cpu(2) }), ["n", "n"]],
    ["a foreign pod that became Muster's", other(), pod(), ["n", "n"]],
    ["another state of the same foreign pod", other(), other(), []],
    ["a foreign pod without a node", undefined, other({ node: "" }), []],
    ["no pod", undefined, undefined, []],
  ])("after %s", (_title, before, after, nodes) => {
    expect(findChangedNodes(before, after)).toEqual(nodes);
  });
});

describe("groups of pods on a node", () => {
  const shared = (part: Partial<WatchedPod> = {}): WatchedPod => pod({ exclusive: false, requests: cpu(100), ...part });
  const one = { pods: 1, requests: { cpu: 100 } };

  it.each<[string, ClusterPod, object | undefined]>([
    ["an exclusive pod", pod({ requests: cpu(100) }), { occupants: [{ kind: "session", id: "s" }] }],
    ["an exclusive pod that is being deleted", pod({ deleting: true }), { occupants: [{ kind: "session", id: "s" }] }],
    [
      "a pod that shares its node",
      shared(),
      { shared: [{ owner: { kind: "session", id: "s" }, use: { ...one, examples: ["ns/p"] } }] },
    ],
    [
      "a pod that shares its node and is being deleted",
      shared({ deleting: true }),
      { shared: [{ owner: { kind: "session", id: "s" }, use: { ...one, examples: ["ns/p"] } }] },
    ],
    ["a foreign pod", other(), { foreign: { ...one, examples: ["apps/o"] } }],
    ["overhead", other({ group: "overhead" }), { overhead: { ...one, examples: ["apps/o"] } }],
    ["a finished pod that shared its node", shared({ finished: true }), undefined],
    ["a finished foreign pod", other({ finished: true }), undefined],
    ["a foreign pod without a node", other({ node: "" }), undefined],
  ])("%s count in one of them", (_title, each, expected) => {
    const none = { pods: 0, requests: {}, examples: [] };
    const empty = { occupants: [], overhead: none, foreign: none, shared: [] };
    expect(buildNodeUses([each]).get("n")).toEqual(expected === undefined ? undefined : { ...empty, ...expected });
  });

  it("sort owners by kind and id, and sum the pods of each", () => {
    const owners = ["b", "a"].flatMap((id) => ["session", "job"].map((kind) => ({ kind, id })));
    const pods = owners.flatMap((owner) => ["p", "q"].map((name) => shared({ owner, name })));
    const uses = buildNodeUses(pods)
      .get("n")
      ?.shared.map(({ owner, use }) => [owner.kind, owner.id, use.pods, use.requests]);
    expect(uses).toEqual([
      ["job", "a", 2, { cpu: 200 }],
      ["job", "b", 2, { cpu: 200 }],
      ["session", "a", 2, { cpu: 200 }],
      ["session", "b", 2, { cpu: 200 }],
    ]);
  });

  it("name the first three pods in alphabetical order", () => {
    const pods = ["d", "a", "c", "b"].map((name) => other({ name }));
    expect(buildNodeUses(pods).get("n")?.foreign.examples).toEqual(["apps/a", "apps/b", "apps/c"]);
  });

  it.each<[string, readonly (readonly [string, number])[], object]>([
    [
      "more than a whole number can be",
      [
        ["memory", 1e18],
        ["memory", 1],
      ],
      { memory: Number.MAX_SAFE_INTEGER },
    ],
    [
      "less than nothing",
      [
        ["cpu", -5],
        ["cpu", 7],
      ],
      { cpu: 7 },
    ],
    ["nothing", [["cpu", 0]], {}],
    [
      "pods",
      [
        ["pods", 1],
        ["cpu", 1],
      ],
      { cpu: 1 },
    ],
  ])("sum %s", (_title, amounts, expected) => {
    const pods = amounts.map((amount, at) => other({ name: `o${at}`, requests: new Map([amount]) }));
    expect(buildNodeUses(pods).get("n")?.foreign.requests).toEqual(expected);
  });

  const anyPod: fc.Arbitrary<ClusterPod> = fc
    .record({
      owned: fc.boolean(),
      exclusive: fc.boolean(),
      finished: fc.boolean(),
      node: fc.constantFrom("", "n", "m"),
      group: fc.constantFrom("foreign" as const, "overhead" as const),
      id: fc.constantFrom("s", "t"),
      name: fc.string({ minLength: 1, maxLength: 3 }),
      cpu: fc.nat(100),
      memory: fc.nat(100),
    })
    .map(({ owned, exclusive, finished, node, group, id, name, ...amounts }) => {
      const common = { finished, node, name, requests: new Map(Object.entries(amounts)) };
      return owned ? pod({ ...common, exclusive, owner: { kind: "session", id } }) : other({ ...common, group });
    });

  it("add up to a naive sum, whatever the order", () => {
    fc.assert(
      fc.property(fc.array(anyPod, { maxLength: 12 }), (pods) => {
        const uses = buildNodeUses(pods);
        expect(buildNodeUses([...pods].reverse())).toEqual(uses);
        for (const node of ["n", "m"]) {
          const here = pods.filter((each) => each.node === node && !each.finished);
          const counted = here.filter((each) => !isOwned(each) || !each.exclusive);
          const groups = groupsOf(uses.get(node));
          expect(groups.reduce((sum, { pods: count }) => sum + count, 0)).toBe(counted.length);
          for (const resource of ["cpu", "memory"]) {
            const naive = counted.reduce((sum, { requests }) => sum + (requests.get(resource) ?? 0), 0);
            expect(groups.reduce((sum, { requests }) => sum + (requests[resource] ?? 0), 0)).toBe(naive);
          }
          const foreign = here.filter((each) => !isOwned(each) && each.group === "foreign");
          const names = foreign.map(({ namespace, name }) => `${namespace}/${name}`).sort();
          expect(uses.get(node)?.foreign.examples ?? []).toEqual(names.slice(0, 3));
        }
      }),
    );
  });
});

function groupsOf(uses: NodeUses | undefined) {
  return uses === undefined ? [] : [uses.overhead, uses.foreign, ...uses.shared.map(({ use }) => use)];
}

describe("pods in other groups", () => {
  const usesOf = (...pods: readonly ClusterPod[]): NodeUses => buildNodeUses([pod(), ...pods]).get("n")!;
  const overhead = other({ group: "overhead", name: "d" });
  const job = { kind: "job", id: "j" };
  const sharing = (milli = 100): ClusterPod => pod({ owner: job, name: "s", exclusive: false, requests: cpu(milli) });

  it.each<[string, NodeUses, NodeUses, boolean]>([
    ["the same ones", usesOf(other(), overhead), usesOf(other(), overhead), false],
    ["one of them counted otherwise", usesOf(other(), overhead), usesOf(other(), other({ name: "d" })), true],
    ["all counted otherwise", usesOf(other()), usesOf(other({ group: "overhead" })), true],
    ["another foreign pod in place of one", usesOf(other()), usesOf(other({ name: "p" })), false],
    ["one that came", usesOf(other()), usesOf(other(), overhead), false],
    ["one with other requests", usesOf(other()), usesOf(other({ group: "overhead", requests: cpu(7) })), false],
    ["ones beside another occupant", usesOf(other()), usesOf(other({ group: "overhead" }), pod({ owner: job })), false],
    ["ones beside a pod that shares", usesOf(other()), usesOf(other({ group: "overhead" }), sharing()), false],
    ["ones beside other shares", usesOf(other(), sharing()), usesOf(other({ group: "overhead" }), sharing(7)), false],
    ["ones beside equal shares", usesOf(other(), sharing()), usesOf(other({ group: "overhead" }), sharing()), true],
  ])("are %s: %s", (_title, was, is, regrouped) => {
    expect(areRegrouped(was, is)).toBe(regrouped);
    expect(areRegrouped(is, was)).toBe(regrouped);
  });
});
