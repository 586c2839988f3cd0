import { describe, expect, it } from "vitest";
import { makeReplica, makeSpec } from "../../test/samples.ts";
import { TFJOB_KIND } from "./kind-tfjob.ts";
import { buildJobLabels, buildMemberLabels, matchesSelector } from "./member-labels.ts";

const KEYS = TFJOB_KIND.labelKeys;

describe("the labels", () => {
  const base = { "training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": "mnist" };

  it("of a job are its group and its name", () => {
    expect(buildJobLabels(KEYS, { name: "mnist" })).toEqual(base);
  });

  it("of a member also have its type and index, and for one member the role", () => {
    const labelsOf = (index: number) =>
      buildMemberLabels(
        KEYS,
        { name: "mnist" },
        { type: "worker", index },
        makeSpec({ replicas: [makeReplica("worker", 4)] }),
      );
    const typed = { ...base, "training.kubeflow.org/replica-type": "worker" };
    expect(labelsOf(3)).toEqual({ ...typed, "training.kubeflow.org/replica-index": "3" });
    expect(labelsOf(0)).toEqual({
      ...typed,
      "training.kubeflow.org/replica-index": "0",
      "training.kubeflow.org/job-role": "master",
    });
  });

  it("are selected if they have every pair of a selector", () => {
    expect(matchesSelector(base, { ...base, more: "x" })).toBe(true);
    expect(matchesSelector(base, { "training.kubeflow.org/job-name": "mnist" })).toBe(false);
    expect(matchesSelector({}, {})).toBe(true);
  });
});
