import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeSet, makeSnapshot, makeSpec, makePlacedSet, POLICY } from "../../test/a-set.ts";
import type { ObservedNode } from "./eligible-nodes.ts";
import { findContestedNodes, findOverlap } from "./find-overlap.ts";
import { planSet } from "./plan-set.ts";
import type { ReplicaSet } from "./replica-set.ts";

const nodes: ObservedNode[] = [
  { name: "a", labels: { disk: "ssd", zone: "1" }, ready: true, schedulable: true, unreadySinceMs: undefined },
  { name: "b", labels: { disk: "hdd", zone: "1" }, ready: true, schedulable: true, unreadySinceMs: undefined },
];
const set = (name: string, nodeSelector: string, rest: Partial<ReplicaSet> = {}): ReplicaSet =>
  makeSet({ name, spec: makeSpec({ nodeSelector }), ...rest });

describe("two sets of one pod id", () => {
  it.each<[string, ReplicaSet, ReplicaSet, unknown]>([
    ["have one selector", set("new", "disk=ssd"), set("old", "disk=ssd"), { because: "same-selector", nodes: [] }],
    ["one selects everything", set("new", ""), set("old", "disk=ssd"), { because: "selects-everything", nodes: [] }],
    ["share a node", set("new", "zone=1"), set("old", "disk=ssd"), { because: "same-nodes", nodes: ["a"] }],
    ["share none", set("new", "disk=hdd"), set("old", "disk=ssd"), undefined],
    ["one is disabled", set("new", ""), set("old", "", { disabled: true }), undefined],
    ["one is deleted", set("new", ""), set("old", "", { deletion: { keepPods: false, atMs: 1 } }), undefined],
    ["are in one rolling update", set("new", "", { rollout: "new" }), set("old", "", { rollout: "new" }), undefined],
    ["are one", set("same", ""), set("same", ""), undefined],
  ])("%s", (_case, fresh, old, overlap) => {
    const found = findOverlap({ ...fresh, createdAtMs: 2 }, [{ ...old, createdAtMs: 1 }], nodes);
    expect(found).toEqual(overlap === undefined ? undefined : { with: "old", ...(overlap as object) });
  });

  it("do not block the older one", () => {
    const [older, newer] = [set("z", "", { createdAtMs: 1 }), set("a", "", { createdAtMs: 2 })];
    expect(findOverlap(older, [newer], nodes)).toBeUndefined();
    expect(findOverlap(newer, [older], nodes)).toMatchObject({ with: "z" });
  });

  it("share their nodes on purpose after a rolling update that left both", () => {
    const fresh = set("new", "", { createdAtMs: 2 });
    const old = set("old", "", { createdAtMs: 1 });
    expect(findOverlap(fresh, [{ ...old, sharesWith: ["x", "new"] }], nodes)).toBeUndefined();
    expect(findOverlap({ ...fresh, sharesWith: ["old"] }, [old], nodes)).toBeUndefined();
  });

  it("do not overlap if they have other pod ids, or are both on machines", () => {
    const other = makeSet({ name: "old", spec: makeSpec({ podId: "db", nodeSelector: "" }) });
    expect(findOverlap(set("new", "", { createdAtMs: 1 }), [other], nodes)).toBeUndefined();
    const pooled = (name: string, createdAtMs: number): ReplicaSet =>
      makeSet({ name, spec: makeSpec({ nodeSelector: "", pool: "p" }), createdAtMs });
    expect(findOverlap(pooled("new", 1), [pooled("old", 0)], nodes)).toBeUndefined();
  });
});

describe("of sets that overlap nevertheless", () => {
  const older = set("older", "disk=ssd", { createdAtMs: 1 });
  const newer = set("newer", "zone=1", { createdAtMs: 2 });

  it("the older one keeps the shared nodes; of sets of one moment the first by name is older", () => {
    expect(findContestedNodes(newer, [older], nodes).nodes).toEqual(new Map([["a", "older"]]));
    expect(findContestedNodes(older, [newer], nodes).nodes).toEqual(new Map());
    const twin = { ...newer, createdAtMs: 1 };
    expect(findContestedNodes(older, [twin], nodes).nodes).toEqual(new Map([["a", "newer"]]));
    expect(findContestedNodes(twin, [older], nodes).nodes).toEqual(new Map());
  });

  it("the newer one leaves only nodes that the older one uses or lacks", () => {
    const both = makePlacedSet(["a", "b"], { name: "newer", spec: newer.spec, createdAtMs: 2 });
    const yieldsTo = (other: ReplicaSet): string[] => [...findContestedNodes(both, [other], nodes).yields];
    expect(yieldsTo(older)).toEqual([]);
    expect(yieldsTo({ ...older, spec: { ...older.spec, replicasDesired: 3 } })).toEqual(["a"]);
    expect(yieldsTo({ ...older, spec: { ...older.spec, daemon: true } })).toEqual(["a"]);
    expect(yieldsTo({ ...older, placements: makePlacedSet(["a"]).placements })).toEqual(["a"]);
  });

  it("that share on purpose take any free node, and of two on one node the newer one yields", () => {
    const both = makePlacedSet(["a", "b"], { name: "newer", spec: newer.spec, createdAtMs: 2, sharesWith: ["older"] });
    const there = { ...older, placements: makePlacedSet(["a"]).placements };
    expect(findContestedNodes(both, [there], nodes)).toEqual({ nodes: new Map(), yields: new Set(["a"]) });
    expect(findContestedNodes(there, [both], nodes)).toEqual({ nodes: new Map(), yields: new Set() });
  });

  it.each<[string, Partial<ReplicaSet>]>([
    ["is disabled", { disabled: true }],
    ["is in a rolling update", { rollout: "r" }],
    ["is deleted", { deletion: { keepPods: false, atMs: 1 } }],
    ["shares them on purpose", { sharesWith: ["older"] }],
  ])("none yields to another when it %s", (_case, rest) => {
    expect(findContestedNodes({ ...newer, ...rest }, [older], nodes).nodes).toEqual(new Map());
  });

  it("none yields a node that the older one could not take: cordoned, or selected by a still older one", () => {
    const both = makePlacedSet(["a"], { name: "newer", spec: newer.spec, createdAtMs: 3 });
    const short = { ...older, spec: { ...older.spec, replicasDesired: 1 } };
    const cordoned = nodes.map((node) => ({ ...node, schedulable: false }));
    expect(findContestedNodes(both, [short], nodes).yields).toEqual(new Set(["a"]));
    expect(findContestedNodes(both, [short], cordoned).yields).toEqual(new Set());
    const eldest = set("eldest", "disk=ssd", { createdAtMs: 0 });
    expect(findContestedNodes(both, [short, eldest], nodes).yields).toEqual(new Set());
  });
});

it("two sets of the same nodes settle, and the younger one loses only nodes that the older one cannot replace, however long a pod takes to end", () => {
  const names = ["a", "b", "c", "d", "e"];
  fc.assert(
    fc.property(
      fc.record({ old: fc.subarray(names), young: fc.subarray(names), cordoned: fc.subarray(names) }),
      fc.nat(3),
      fc.nat(8),
      ({ old, young, cordoned }, missing, ending) => {
        const spec = (replicasDesired: number) => makeSpec({ replicasDesired, allocationStrategy: "static" });
        const sets = takeTurns(
          [
            makePlacedSet(old, { name: "older", createdAtMs: 1, spec: spec(old.length + missing) }),
            makePlacedSet(young, { name: "younger", createdAtMs: 2, spec: spec(young.length) }),
          ],
          { names, cordoned, ending },
        );
        const free = names.filter((name) => ![...old, ...young, ...cordoned].includes(name)).length;
        const given = young.filter((name) => ![...old, ...cordoned].includes(name)).length;
        const left = young.filter((name) => !old.includes(name)).length;
        const lost = Math.max(0, Math.min(missing, free + given) - free);
        expect(sets.map(({ placements }) => placements.length)).toEqual([
          old.length + Math.min(missing, free + given),
          left - lost,
        ]);
      },
    ),
  );
});

type Turns = { readonly names: readonly string[]; readonly cordoned: readonly string[]; readonly ending: number };

/** Executes the plans of both sets in turns, until no plan has had an effect for longer than a pod takes to end. */
function takeTurns(sets: ReplicaSet[], { names, cordoned, ending }: Turns): ReplicaSet[] {
  const sights = names.map((name) => ({
    name,
    labels: { disk: "ssd" },
    ready: true,
    schedulable: !cordoned.includes(name),
    unreadySinceMs: undefined,
  }));
  const usable = names.filter((name) => !cordoned.includes(name));
  const endsAt = new Map<string, number>();
  let [turn, quiet] = [0, 0];
  for (; quiet <= 2 * ending + 4 && turn < 500; turn += 1) {
    const mine = sets[turn % 2];
    const other = sets[(turn + 1) % 2];
    if (mine === undefined || other === undefined) break;
    const busy = [...endsAt].filter(([key, at]) => at > turn && key.startsWith(other.name));
    const placed = other.placements.map(({ node }) => node);
    const taken = new Set([...placed, ...busy.map(([key]) => key.slice(other.name.length))]);
    const contest = findContestedNodes(mine, [other], sights);
    const next = planSet(makeSnapshot(mine, usable, { taken, contest }), POLICY).change?.next ?? mine;
    quiet = next === mine ? quiet + 1 : 0;
    const kept = new Set(next.placements.map(({ node }) => node));
    for (const { node } of mine.placements) if (!kept.has(node)) endsAt.set(`${mine.name}${node}`, turn + ending);
    sets[turn % 2] = next;
  }
  expect(turn).toBeLessThan(500);
  return sets;
}
