import { describe, expect, it } from "vitest";
import { makePlacement, makePod, makeRollout, makeSnapshot, makeTransfer, makePlacedSet } from "../../test/a-set.ts";
import { countHealthy } from "./count-healthy.ts";
import { planPods } from "./plan-pods.ts";
import type { SetSnapshot } from "./set-snapshot.ts";

const none = new Map<string, string>();
const set = makePlacedSet(["a", "b"]);
const withPods = (...pods: [string, SetSnapshot["pods"] extends ReadonlyMap<string, infer Pod> ? Pod : never][]) => ({
  pods: new Map(pods),
});

describe("pods of a set", () => {
  it("stay unchanged if each placement has its pod, and no other exists", () => {
    expect(planPods(makeSnapshot(set, ["a", "b"]), none, new Map())).toEqual([]);
  });

  it("are created for placements without one, on their node", () => {
    expect(planPods(makeSnapshot(set, ["a", "b"], withPods()), none, new Map())).toEqual([
      { kind: "create", pod: "web-1", ordinal: 1, node: "a", because: "missing" },
      { kind: "create", pod: "web-2", ordinal: 2, node: "b", because: "missing" },
    ]);
  });

  it("without a placement are deleted once", () => {
    const surplus = makePod(set, { node: "c", ordinal: 9, templateHash: "", sinceMs: 0, reservation: undefined });
    const pods = new Map([...makeSnapshot(set, []).pods, surplus]);
    expect(planPods(makeSnapshot(set, ["a", "b"], { pods }), none, new Map())).toEqual([
      { kind: "delete", pod: "web-9", uid: "uid-web-9", because: "no-place" },
    ]);
    pods.set("web-9", { ...surplus[1], deleting: true });
    expect(planPods(makeSnapshot(set, ["a", "b"], { pods }), none, new Map())).toEqual([]);
  });

  it("on another node than their placement are deleted, as those of an earlier set of the name", () => {
    const pods = new Map(set.placements.map((each) => makePod(set, each, each.node === "b" ? { node: "c" } : {})));
    const snapshot = makeSnapshot(set, ["a", "b"], { pods });
    expect(planPods(snapshot, none, new Map())).toEqual([
      { kind: "delete", pod: "web-2", uid: "uid-web-2", because: "no-place" },
    ]);
    expect(countHealthy(set, pods, "h1")).toBe(1);
  });

  it("are confirmed, and not deleted, if the set is deleted and its pods stay", () => {
    const gone = { ...set, placements: [], deletion: { keepPods: true, atMs: 1 } };
    const pods = makeSnapshot(set, []).pods;
    expect(planPods(makeSnapshot(gone, ["a", "b"], { pods }), none, new Map()).map((step) => step.kind)).toEqual([
      "abandon",
      "abandon",
    ]);
  });

  it.each([
    ["has ended", "FAILED" as const, { kind: "delete", pod: "web-1", uid: "uid-web-1", because: "ended" }],
    ["has succeeded", "SUCCEEDED" as const, { kind: "delete", pod: "web-1", uid: "uid-web-1", because: "ended" }],
  ])("are recreated when one %s", (_case, health, step) => {
    const [first, second] = set.placements;
    if (first === undefined || second === undefined) throw new Error("no placements");
    const seen = withPods(makePod(set, first, { health }), makePod(set, second));
    expect(planPods(makeSnapshot(set, ["a", "b"], seen), none, new Map())).toEqual([step]);
  });

  it("are confirmed if their creator may have died before it confirmed them", () => {
    const seen = new Map(set.placements.map((each) => makePod(set, each, { node: "", health: "NOT_READY" })));
    expect(planPods(makeSnapshot(set, ["a", "b"], { pods: seen }), none, new Map())).toEqual([
      { kind: "confirm", pod: "web-1", ordinal: 1, because: "not-placed" },
      { kind: "confirm", pod: "web-2", ordinal: 2, because: "not-placed" },
    ]);
  });

  it.each<[string, Partial<typeof set>, string, readonly string[]]>([
    ["is gone", {}, "", ["delete web-1: node-gone"]],
    ["is gone, but not for a disabled set", { disabled: true }, "", ["confirm web-1: not-placed"]],
    ["is gone, but not once they have run there", {}, "b", []],
    ["is cordoned, which does not delete them", {}, "", ["confirm web-1: not-placed"]],
  ])("are deleted if they wait for a node that %s", (what, more, node, expected) => {
    const one = makePlacedSet(["b"], more);
    const unusable = new Map(what.startsWith("is cordoned") ? [["b", "it is cordoned"]] : []);
    const nodes = { eligible: new Set(["a"]), usable: new Set(["a"]), unusable, foreign: new Map() };
    const pods = new Map(one.placements.map((each) => makePod(one, each, { node, health: "NOT_READY" })));
    const steps = planPods(makeSnapshot(one, ["a"], { pods, nodes }), none, new Map());
    expect(steps.map((step) => `${step.kind} ${step.pod}: ${step.because}`)).toEqual(expected);
  });

  it.each<[string, Partial<SetSnapshot>, Map<string, string>, Map<number, { times: number; notBeforeMs: number }>]>([
    [
      "node-unusable",
      { nodes: { eligible: new Set(["a"]), usable: new Set(), unusable: new Map(), foreign: new Map() } },
      none,
      new Map(),
    ],
    ["nodes-unknown", { nodes: undefined }, none, new Map()],
    ["node-taken", {}, new Map([["a", "web-0"]]), new Map()],
    // The set's own pod after its labels were removed manually.
    ["node-taken", {}, new Map([["a", "web-1"]]), new Map()],
    ["pause", {}, none, new Map([[1, { times: 1, notBeforeMs: 2_000_000 }]])],
  ])("wait with the reason: %s", (because, rest, occupied, restarts) => {
    const one = makePlacedSet(["a"]);
    expect(planPods(makeSnapshot(one, ["a"], { ...withPods(), ...rest }), occupied, restarts)).toEqual([
      { kind: "wait", pod: "web-1", because },
    ]);
  });

  it.each<[string, Partial<typeof set>, Partial<SetSnapshot>, readonly string[]]>([
    ["was deleted by hand", {}, withPods(), ["wait web-1: disabled", "wait web-2: disabled"]],
    [
      "has ended",
      {},
      withPods(makePod(set, makePlacement("a", 1), { health: "FAILED" })),
      ["wait web-1: disabled", "wait web-2: disabled"],
    ],
    [
      "is not placed yet",
      {},
      withPods(makePod(set, makePlacement("a", 1), { node: "" })),
      ["confirm web-1: not-placed", "wait web-2: disabled"],
    ],
    ["has no placement", { placements: [] }, {}, ["delete web-1: no-place", "delete web-2: no-place"]],
    [
      "is the new one of a transfer",
      { transfer: makeTransfer("a", "b") },
      withPods(),
      ["wait web-1: disabled", "create web-2: missing"],
    ],
    [
      "is moved by a rolling update",
      { rollout: "web-2" },
      { ...withPods(), rollout: makeRollout({ phase: "RUNNING" }) },
      ["create web-1: missing", "create web-2: missing"],
    ],
  ])("of a disabled set are not replaced; one that %s", (_case, more, rest, expected) => {
    const snapshot = makeSnapshot({ ...set, disabled: true, ...more }, ["a", "b"], {
      pods: makeSnapshot(set, []).pods,
      ...rest,
    });
    const steps = planPods(snapshot, none, new Map());
    expect(steps.map((step) => `${step.kind} ${step.pod}: ${step.because}`)).toEqual(expected);
  });

  it("wait until the earlier pod of their name is gone", () => {
    const one = makePlacedSet(["a"]);
    const pods = new Map(one.placements.map((each) => makePod(one, each, { deleting: true })));
    expect(planPods(makeSnapshot(one, ["a"], { pods }), none, new Map())).toEqual([
      { kind: "wait", pod: "web-1", because: "deleting" },
    ]);
  });
});
