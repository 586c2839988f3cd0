import { describe, expect, it } from "vitest";
import { BATCH_JOB, batchJobOwnerId, isBatchJob } from "./batch-job-owner.ts";
import { checkDnsLabel } from "./names.ts";
import { PART_SEPARATOR } from "./owners.ts";

const UID = "0a1b2c3d-4e5f-6789-abcd-ef0123456789";

describe("the owner id of a batch Job", () => {
  const cases: readonly [title: string, job: { namespace: string; name: string; uid?: string }, id: string][] = [
    ["shows namespace and name", { namespace: "team-a", name: "train" }, "team-a-train-0a1b2c3d4e5f"],
    ["has no dots", { namespace: "team-a", name: "train.v2" }, "team-a-train-v2-0a1b2c3d4e5f"],
    ["has no separator of parts", { namespace: "a--b", name: "c--d" }, "a-b-c-d-0a1b2c3d4e5f"],
    [
      "is cut, and no part ends with a hyphen",
      { namespace: "namespace-of-ml-research", name: "a-name-of-twenty-three--and-more" },
      "namespace-of-ml-a-name-of-twenty-three-a-0a1b2c3d4e5f",
    ],
  ];
  it.each(cases)("%s", (_title, job, id) => {
    const found = batchJobOwnerId({ uid: UID, ...job });
    expect(found).toBe(id);
    expect(checkDnsLabel("id", found)).toBeUndefined();
    expect(found).not.toContain(PART_SEPARATOR);
    expect(isBatchJob({ kind: BATCH_JOB, id: found }, UID)).toBe(true);
  });

  it("is of no other Job and of no other kind of owner", () => {
    const id = batchJobOwnerId({ namespace: "team-a", name: "train", uid: UID });
    expect(isBatchJob({ kind: BATCH_JOB, id }, "1a1b2c3d-4e5f-6789-abcd-ef0123456789")).toBe(false);
    expect(isBatchJob({ kind: "job", id }, UID)).toBe(false);
    expect(isBatchJob({ kind: BATCH_JOB, id: "train-" }, "")).toBe(false);
  });
});
