import { describe, expect, it } from "vitest";
import { KIND, testJob } from "../../test/member-world.ts";
import { checkOwnerReference, buildOwnerReference, isReferringToKind } from "./ownership.ts";

describe("the owner reference", () => {
  const reference = buildOwnerReference(KIND, testJob("mnist").metadata);

  it("manages the member and blocks the owner's foreground deletion", () => {
    expect(reference).toEqual({
      apiVersion: "kubeflow.org/v1",
      kind: "TFJob",
      name: "mnist",
      uid: "uid-of-mnist",
      controller: true,
      blockOwnerDeletion: true,
    });
    expect(checkOwnerReference(reference)).toBeUndefined();
  });

  it.each([
    ["missing", undefined, "owner reference"],
    ["without apiVersion", { ...reference, apiVersion: "" }, "owner reference.apiVersion"],
    ["without kind", { ...reference, kind: "" }, "owner reference.kind"],
    ["without uid", { ...reference, uid: "" }, "owner reference.uid"],
    ["no controller", { ...reference, controller: false }, "owner reference.controller"],
    ["not blocking", { ...reference, blockOwnerDeletion: false }, "owner reference.blockOwnerDeletion"],
  ])("is refused if it is %s", (_what, wrong, field) => {
    expect(checkOwnerReference(wrong)).toMatchObject({ code: "invalid_request", field });
  });

  it("is recognised in another version of the group, and in no other group or kind", () => {
    expect(isReferringToKind({ ...reference, apiVersion: "kubeflow.org/v1beta2" }, KIND)).toBe(true);
    expect(isReferringToKind({ ...reference, apiVersion: "muster.dev/v1" }, KIND)).toBe(false);
    expect(isReferringToKind({ ...reference, apiVersion: "v1" }, KIND)).toBe(false);
    expect(isReferringToKind({ ...reference, kind: "PyTorchJob" }, KIND)).toBe(false);
  });
});
