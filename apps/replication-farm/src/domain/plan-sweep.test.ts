import { describe, expect, it } from "vitest";
import { sweepPods } from "../../test/sweep-plans.ts";
import type { OwnedPod } from "./plan-sweep.ts";

const pod = (more: Partial<OwnedPod> = {}): OwnedPod => ({
  pod: "web-1",
  uid: "p1",
  set: "web",
  setUid: "u1",
  node: "",
  otherInstallation: undefined,
  deleting: false,
  kept: false,
  overdueOn: undefined,
  ...more,
});
const NONE = new Set<string>();
const NOW = 1_000_000;
const look = (
  pods: readonly OwnedPod[],
  sets: ReadonlyMap<string, string | undefined>,
  suspects: ReadonlySet<string>,
) => sweepPods(pods, sets, suspects, NOW, { nodeLostMs: 300_000 });

describe("a sweep of pods", () => {
  it("deletes the pod of a set that does not exist in the second sweep, not in the first", () => {
    const first = look([pod()], new Map(), NONE);
    expect(first).toEqual({ delete: [], suspects: new Set(["p1"]), leftAlone: [] });
    expect(look([pod()], new Map(), first.suspects).delete).toEqual([{ pod: pod(), force: false }]);
  });

  it.each<[string, OwnedPod, ReadonlyMap<string, string | undefined>]>([
    ["whose set exists", pod(), new Map([["web", "u1"]])],
    ["whose set cannot be read", pod(), new Map([["web", undefined]])],
    ["that a user has marked to stay", pod({ kept: true }), new Map()],
  ])("keeps a pod %s", (_title, each, sets) => {
    expect(look([each], sets, new Set(["p1"]))).toEqual({ delete: [], suspects: NONE, leftAlone: [] });
  });

  const foreign = pod({ otherInstallation: "muster-2" });
  it.each<[string, OwnedPod, ReadonlyMap<string, string | undefined>, number]>([
    ["whose set does not exist here", foreign, new Map(), 1],
    ["whose set has the name of one that does", foreign, new Map([["web", "u2"]]), 1],
    ["that a lost node keeps", { ...foreign, deleting: true, overdueOn: { state: "gone" } }, new Map(), 1],
    ["that names the uid of a set that exists, and so is ours", foreign, new Map([["web", "u1"]]), 0],
    ["whose set cannot be read", foreign, new Map([["web", undefined]]), 0],
  ])("keeps a pod of another installation, %s", (_title, each, sets, left) => {
    const plan = look([each, pod({ uid: "p2", set: "gone" })], sets, new Set(["p1", "p2"]));
    expect(plan.delete.map((step) => step.pod.uid)).toEqual(["p2"]);
    expect(plan.suspects).toEqual(new Set(["p2"]));
    expect(plan.leftAlone).toHaveLength(left);
  });

  it("treats the pod of an earlier set of the same name as an orphan", () => {
    expect(look([pod()], new Map([["web", "u2"]]), new Set(["p1"])).delete).toEqual([{ pod: pod(), force: false }]);
  });

  it("restarts the count for a pod that belonged to a set in between", () => {
    const between = look([pod()], new Map([["web", "u1"]]), new Set(["p1"]));
    expect(look([pod()], new Map(), between.suspects).delete).toEqual([]);
  });

  it("waits for a pod in deletion, unless its node will never report its end", () => {
    const leaving = pod({ deleting: true });
    const suspects = new Set(["p1"]);
    expect(look([leaving], new Map(), suspects)).toEqual({ delete: [], suspects, leftAlone: [] });
    const stuck = pod({ deleting: true, overdueOn: { state: "gone" } });
    expect(look([stuck], new Map(), NONE).delete).toEqual([]);
    expect(look([stuck], new Map(), suspects).delete).toEqual([{ pod: stuck, force: true }]);
  });
});
