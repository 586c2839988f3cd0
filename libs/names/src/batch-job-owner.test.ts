import { describe, expect, it } from "vitest";
import { batchOwnerId, isBatchOwner } from "./batch-job-owner.ts";
import { BATCH_JOB, BATCH_KINDS, JOB_SET, QUEUED_POD } from "./batch-kinds.ts";
import { checkDnsLabel } from "./names.ts";
import { mayOccupy, PART_SEPARATOR } from "./owners.ts";

const UID = "0a1b2c3d-4e5f-6789-abcd-ef0123456789";
const OTHER = "1a1b2c3d-4e5f-6789-abcd-ef0123456789";

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
    expect(batchOwnerId(BATCH_JOB, { uid: UID, ...job })).toBe(id);
  });
});

describe.each(BATCH_KINDS)("the owner id of a %s", (kind) => {
  const work = { namespace: "namespace-of-ml-research", name: "a-name-of-twenty-three--and-more", uid: UID };
  const id = batchOwnerId(kind, work);

  it("is a DNS label with room for the name of a part, which may be occupied by the owner", () => {
    expect(checkDnsLabel("id", id)).toBeUndefined();
    expect(id).not.toContain(PART_SEPARATOR);
    const part = `${id}${PART_SEPARATOR}pod-999`;
    expect(checkDnsLabel("id", part)).toBeUndefined();
    expect(mayOccupy({ kind, id }, { kind, id: part })).toBe(true);
  });

  it("is another one for another uid", () => {
    expect(batchOwnerId(kind, { ...work, uid: OTHER })).not.toBe(id);
  });
});

describe("a pod of another namespace", () => {
  const work = { namespace: "team-a", name: "train", uid: UID };
  const pod = { namespace: "team-a", uid: "p", jobUid: "" };
  const owner = (kind: (typeof BATCH_KINDS)[number]) => ({ kind, id: batchOwnerId(kind, work) });
  it.each([
    ["of the Job that controls it", owner(BATCH_JOB), { ...pod, jobUid: UID }, true],
    ["of no other Job", owner(BATCH_JOB), { ...pod, jobUid: OTHER }, false],
    ["of no Job without a controller", { kind: BATCH_JOB, id: "train-" }, pod, false],
    ["of a JobSet of its namespace, if a Job controls it", owner(JOB_SET), { ...pod, jobUid: OTHER }, true],
    ["of no JobSet without a Job", owner(JOB_SET), pod, false],
    ["of no JobSet of another namespace", owner(JOB_SET), { ...pod, namespace: "team-b", jobUid: OTHER }, false],
    ["its own owner", owner(QUEUED_POD), { ...pod, uid: UID }, true],
    ["of no other pod", owner(QUEUED_POD), { ...pod, uid: OTHER }, false],
    ["of no owner of another kind", { kind: "job", id: owner(BATCH_JOB).id }, { ...pod, jobUid: UID }, false],
  ])("is %s", (_title, named, seen, expected) => {
    expect(isBatchOwner(named, seen)).toBe(expected);
  });
});
