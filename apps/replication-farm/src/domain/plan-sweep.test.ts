import { describe, expect, it } from "vitest";
import { planSweep, type OwnedPod } from "./plan-sweep.ts";

const pod = (more: Partial<OwnedPod> = {}): OwnedPod => ({
  pod: "web-1",
  uid: "p1",
  set: "web",
  setUid: "u1",
  deleting: false,
  kept: false,
  ...more,
});
const NOBODY = new Set<string>();

describe("planSweep", () => {
  it("deletes the pod of a set that does not exist at the second look, not at the first", () => {
    const first = planSweep([pod()], new Map(), NOBODY);
    expect(first).toEqual({ delete: [], suspects: new Set(["p1"]) });
    expect(planSweep([pod()], new Map(), first.suspects).delete).toEqual([pod()]);
  });

  it.each<[string, OwnedPod, ReadonlyMap<string, string | undefined>]>([
    ["whose set exists", pod(), new Map([["web", "u1"]])],
    ["whose set cannot be read", pod(), new Map([["web", undefined]])],
    ["that somebody wants to stay", pod({ kept: true }), new Map()],
    ["that is on its way out", pod({ deleting: true }), new Map()],
  ])("leaves a pod %s", (_title, each, sets) => {
    expect(planSweep([each], sets, new Set(["p1"]))).toEqual({ delete: [], suspects: NOBODY });
  });

  it("takes the pod of an earlier set of the same name for an orphan", () => {
    expect(planSweep([pod()], new Map([["web", "u2"]]), new Set(["p1"])).delete).toEqual([pod()]);
  });

  it("begins anew with a pod that belonged to a set in between", () => {
    const between = planSweep([pod()], new Map([["web", "u1"]]), new Set(["p1"]));
    expect(planSweep([pod()], new Map(), between.suspects).delete).toEqual([]);
  });
});
