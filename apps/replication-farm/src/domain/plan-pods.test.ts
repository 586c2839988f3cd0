import { describe, expect, it } from "vitest";
import { aPod, aSnapshot, placedOn } from "./a-set.ts";
import { countHealthy } from "./count-healthy.ts";
import { planPods } from "./plan-pods.ts";
import type { SetSnapshot } from "./set-snapshot.ts";

const none = new Map<string, string>();
const set = placedOn(["a", "b"]);
const withPods = (...pods: [string, SetSnapshot["pods"] extends ReadonlyMap<string, infer Pod> ? Pod : never][]) => ({
  pods: new Map(pods),
});

describe("pods of a set", () => {
  it("are left alone where each place has its pod, and no other is there", () => {
    expect(planPods(aSnapshot(set, ["a", "b"]), none, new Map())).toEqual([]);
  });

  it("are made for places that have none, on their node", () => {
    expect(planPods(aSnapshot(set, ["a", "b"], withPods()), none, new Map())).toEqual([
      { do: "create", pod: "web-1", ordinal: 1, node: "a", because: "missing" },
      { do: "create", pod: "web-2", ordinal: 2, node: "b", because: "missing" },
    ]);
  });

  it("go where they have no place, once", () => {
    const surplus = aPod(set, { node: "c", ordinal: 9, templateHash: "", sinceMs: 0, reservation: undefined });
    const pods = new Map([...aSnapshot(set, []).pods, surplus]);
    expect(planPods(aSnapshot(set, ["a", "b"], { pods }), none, new Map())).toEqual([
      { do: "delete", pod: "web-9", uid: "uid-web-9", because: "no-place" },
    ]);
    pods.set("web-9", { ...surplus[1], deleting: true });
    expect(planPods(aSnapshot(set, ["a", "b"], { pods }), none, new Map())).toEqual([]);
  });

  it("go where they are on another node than their place, as those of an earlier set of the name", () => {
    const pods = new Map(set.placements.map((each) => aPod(set, each, each.node === "b" ? { node: "c" } : {})));
    const snapshot = aSnapshot(set, ["a", "b"], { pods });
    expect(planPods(snapshot, none, new Map())).toEqual([
      { do: "delete", pod: "web-2", uid: "uid-web-2", because: "no-place" },
    ]);
    expect(countHealthy(set, pods, "h1")).toBe(1);
  });

  it("are let go, and not deleted, where the set goes and its pods stay", () => {
    const gone = { ...set, placements: [], deletion: { keepPods: true, atMs: 1 } };
    const pods = aSnapshot(set, []).pods;
    expect(planPods(aSnapshot(gone, ["a", "b"], { pods }), none, new Map()).map((step) => step.do)).toEqual([
      "abandon",
      "abandon",
    ]);
  });

  it.each([
    ["has ended", "FAILED" as const, { do: "delete", pod: "web-1", uid: "uid-web-1", because: "ended" }],
    ["has ended well", "SUCCEEDED" as const, { do: "delete", pod: "web-1", uid: "uid-web-1", because: "ended" }],
  ])("are made anew when one %s", (_case, health, step) => {
    const [first, second] = set.placements;
    if (first === undefined || second === undefined) throw new Error("no places");
    const seen = withPods(aPod(set, first, { health }), aPod(set, second));
    expect(planPods(aSnapshot(set, ["a", "b"], seen), none, new Map())).toEqual([step]);
  });

  it("are let go to their node when their maker may have died before it did", () => {
    const seen = new Map(set.placements.map((each) => aPod(set, each, { node: "", health: "NOT_READY" })));
    expect(planPods(aSnapshot(set, ["a", "b"], { pods: seen }), none, new Map())).toEqual([
      { do: "confirm", pod: "web-1", ordinal: 1, because: "not-placed" },
      { do: "confirm", pod: "web-2", ordinal: 2, because: "not-placed" },
    ]);
  });

  it.each<[string, Partial<SetSnapshot>, Map<string, string>, Map<number, { times: number; notBeforeMs: number }>]>([
    ["node-unusable", { nodes: { eligible: new Set(["a"]), usable: new Set(), unusable: new Map() } }, none, new Map()],
    ["nodes-unknown", { nodes: undefined }, none, new Map()],
    ["node-taken", {}, new Map([["a", "web-0"]]), new Map()],
    ["pause", {}, none, new Map([[1, { times: 1, notBeforeMs: 2_000_000 }]])],
  ])("wait, and say why: %s", (because, rest, occupied, restarts) => {
    const one = placedOn(["a"]);
    expect(planPods(aSnapshot(one, ["a"], { ...withPods(), ...rest }), occupied, restarts)).toEqual([
      { do: "wait", pod: "web-1", because },
    ]);
  });

  it("wait for the earlier pod of their name to be gone", () => {
    const one = placedOn(["a"]);
    const pods = new Map(one.placements.map((each) => aPod(one, each, { deleting: true })));
    expect(planPods(aSnapshot(one, ["a"], { pods }), none, new Map())).toEqual([
      { do: "wait", pod: "web-1", because: "deleting" },
    ]);
  });
});
