import type { V1Pod } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { makePodEnds } from "./pod-ends.ts";

const JOB = { apiVersion: "muster.dev/v1", kind: "Job", name: "train", uid: "job-uid", controller: true };

function pod(uid: string, phase: string, more: V1Pod["metadata"] = {}): V1Pod {
  return { metadata: { name: uid, uid, ownerReferences: [JOB], ...more }, status: { phase } };
}

function remembering(most?: number) {
  const full: number[] = [];
  const ends = makePodEnds((limit) => full.push(limit), most);
  return {
    ...ends,
    full,
    left: (job = "job-uid") => ends.of(job).map((end) => `${end.pod.metadata?.uid} ${end.isGone}`),
  };
}

const running = pod("a", "Running");
const failed = pod("a", "Failed");
const going = { deletionTimestamp: new Date(0) };

describe("the end of a pod", () => {
  it("is remembered after the deletion of the pod, in the observed state of the end", () => {
    const ends = remembering();
    ends.begin([]);
    ends.seen({ before: running, after: failed });
    ends.seen({ before: failed, after: pod("a", "Failed", going) });
    expect(ends.left()).toEqual(["a false"]);
    ends.seen({ before: pod("a", "Failed", going), after: undefined });
    expect(ends.of("job-uid")).toEqual([{ pod: failed, isGone: true }]);
  });

  it.each<[why: string, before: V1Pod | undefined, after: V1Pod]>([
    ["whose deletion was requested before its end", running, pod("a", "Succeeded", going)],
    ["that has not ended", undefined, running],
    ["whose end was already observed", failed, pod("a", "Failed", { labels: { new: "label" } })],
    ["without a controller", running, pod("a", "Failed", { ownerReferences: [{ ...JOB, controller: false }] })],
    ["of another controller", running, pod("a", "Failed", { ownerReferences: [{ ...JOB, kind: "ReplicaSet" }] })],
  ])("is not remembered of one %s", (_why, before, after) => {
    const ends = remembering();
    ends.begin([]);
    ends.seen({ before, after });
    expect(ends.left()).toEqual([]);
  });

  it("is remembered for pods that had ended at the start of the lead, and not for pods outside the lead", () => {
    const ends = remembering();
    ends.seen({ before: running, after: failed });
    expect(ends.left()).toEqual([]);
    const lead = ends.begin([running, pod("b", "Succeeded")]);
    expect(ends.left()).toEqual(["b false"]);
    lead[Symbol.dispose]();
    ends.seen({ before: running, after: failed });
    expect(ends.left()).toEqual([]);
  });

  it("is forgotten after the status records it, or its job is gone", () => {
    const ends = remembering();
    ends.begin([failed, pod("b", "Failed"), pod("c", "Failed")]);
    ends.forget("job-uid", ["b"]);
    expect(ends.left()).toEqual(["a false", "c false"]);
    ends.forgetJob("job-uid");
    expect(ends.left()).toEqual([]);
  });

  it("is forgotten beyond the limit, the oldest first, with one warning", () => {
    const ends = remembering(2);
    ends.begin(["a", "b", "c", "d"].map((uid) => pod(uid, "Failed")));
    expect(ends.left()).toEqual(["c false", "d false"]);
    expect(ends.full).toEqual([2]);
  });
});
