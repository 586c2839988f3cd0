import { faultOf } from "@muster/faults";
import { describe, expect, it } from "vitest";
import { genLabels, genMemberLabels, selects } from "./member-labels.ts";
import { genGeneralName } from "./names.ts";
import { genOwnerReference, refersToKind, requireOwnerReference } from "./owner-reference.ts";
import { KUBEFLOW_TFJOB, testJob } from "../../test/job-world.ts";

function faultFrom(work: () => unknown): unknown {
  try {
    work();
    return "no fault";
  } catch (error) {
    return faultOf(error) ?? error;
  }
}

describe("genGeneralName", () => {
  it.each([
    ["mnist", "Worker", 0, "mnist-worker-0"],
    ["team/mnist", "PS", 12, "team-mnist-ps-12"],
    ["a".repeat(54), "worker", 1, `${"a".repeat(54)}-worker-1`],
  ])("of %s, %s and %i is %s", (job, type, index, name) => {
    expect(genGeneralName(job, type, index)).toBe(name);
  });

  it.each([
    ["a".repeat(55), "worker", 1],
    ["a.b", "worker", 0],
    ["mnist", "worker_", 0],
    ["-mnist", "worker", 0],
  ])("refuses %s, %s and %i, of which no host name can be made", (job, type, index) => {
    const refused = faultFrom(() => genGeneralName(job, type, index));
    expect(refused).toMatchObject({ code: "invalid_request", field: "metadata.name" });
  });
});

describe("the labels", () => {
  const base = { "training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": "mnist" };

  it("of a job are its group and its name", () => {
    expect(genLabels(KUBEFLOW_TFJOB, "mnist")).toEqual(base);
    expect(genLabels(KUBEFLOW_TFJOB, "team/mnist")["training.kubeflow.org/job-name"]).toBe("team-mnist");
  });

  it("of a member have its type and index besides, and the role for one only", () => {
    const member = {
      ...base,
      "training.kubeflow.org/replica-type": "worker",
      "training.kubeflow.org/replica-index": "3",
    };
    expect(genMemberLabels(KUBEFLOW_TFJOB, "mnist", { replicaType: "Worker", index: 3 })).toEqual(member);
    expect(genMemberLabels(KUBEFLOW_TFJOB, "mnist", { replicaType: "Worker", index: 3, isMaster: true })).toEqual({
      ...member,
      "training.kubeflow.org/job-role": "master",
    });
  });

  it("of a job that is called too long are refused, not cut", () => {
    expect(faultFrom(() => genLabels(KUBEFLOW_TFJOB, "a".repeat(64)))).toMatchObject({ code: "invalid_request" });
  });

  it("are selected by every pair of a selector, and by nothing less", () => {
    expect(selects(base, { ...base, more: "x" })).toBe(true);
    expect(selects(base, { "training.kubeflow.org/job-name": "mnist" })).toBe(false);
    expect(selects({}, {})).toBe(true);
  });
});

describe("the owner reference", () => {
  const reference = genOwnerReference(KUBEFLOW_TFJOB.apiGroupVersionKind, testJob("mnist"));

  it("manages the member and holds back the owner's deletion", () => {
    expect(reference).toEqual({
      apiVersion: "kubeflow.org/v1",
      kind: "TFJob",
      name: "mnist",
      uid: "uid-of-mnist",
      controller: true,
      blockOwnerDeletion: true,
    });
    expect(requireOwnerReference(reference)).toBe(reference);
  });

  it.each([
    ["missing", undefined, "owner reference"],
    ["without apiVersion", { ...reference, apiVersion: "" }, "owner reference.apiVersion"],
    ["without kind", { ...reference, kind: "" }, "owner reference.kind"],
    ["without uid", { ...reference, uid: "" }, "owner reference.uid"],
    ["no controller", { ...reference, controller: false }, "owner reference.controller"],
    ["not blocking", { ...reference, blockOwnerDeletion: false }, "owner reference.blockOwnerDeletion"],
  ])("is refused when it is %s", (_what, wrong, field) => {
    expect(faultFrom(() => requireOwnerReference(wrong))).toMatchObject({ code: "invalid_request", field });
  });

  it("is recognised in another version of the group, and in no other group or kind", () => {
    const gvk = KUBEFLOW_TFJOB.apiGroupVersionKind;
    expect(refersToKind({ ...reference, apiVersion: "kubeflow.org/v1beta2" }, gvk)).toBe(true);
    expect(refersToKind({ ...reference, apiVersion: "muster.dev/v1" }, gvk)).toBe(false);
    expect(refersToKind({ ...reference, apiVersion: "v1" }, gvk)).toBe(false);
    expect(refersToKind({ ...reference, kind: "PyTorchJob" }, gvk)).toBe(false);
  });
});
