import { describe, expect, it } from "vitest";
import { buildBatchOwnerId, canBeOwner } from "./batch-job-owner.ts";
import { BATCH_JOB, BATCH_KINDS, JOB_SET, QUEUED_POD } from "./batch-kinds.ts";
import { checkDnsLabel } from "./check-names.ts";
import { canOccupy, PART_SEPARATOR } from "./owners.ts";

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
    expect(buildBatchOwnerId(BATCH_JOB, { uid: UID, ...job })).toBe(id);
  });
});

describe.each(BATCH_KINDS)("the owner id of a %s", (kind) => {
  const work = { namespace: "namespace-of-ml-research", name: "a-name-of-twenty-three--and-more", uid: UID };
  const id = buildBatchOwnerId(kind, work);

  it("is a DNS label with room for the name of a part, which may be occupied by the owner", () => {
    expect(checkDnsLabel("id", id)).toBeUndefined();
    expect(id).not.toContain(PART_SEPARATOR);
    const part = `${id}${PART_SEPARATOR}pod-999`;
    expect(checkDnsLabel("id", part)).toBeUndefined();
    expect(canOccupy({ kind, id }, { kind, id: part })).toBe(true);
  });

  it("is another one for another uid", () => {
    expect(buildBatchOwnerId(kind, { ...work, uid: OTHER })).not.toBe(id);
  });
});

describe("a pod of another namespace", () => {
  const work = { namespace: "team-a", name: "train", uid: UID };
  const pod = { namespace: "team-a", uid: "p", controller: undefined };
  const owner = (kind: (typeof BATCH_KINDS)[number]) => ({ kind, id: buildBatchOwnerId(kind, work) });
  const job = { kind: "job", id: "train-0a1b2c3d4e5f" };
  const by = (uid: string, apiVersion = "batch/v1", kind = "Job") => ({
    ...pod,
    controller: { apiVersion, kind, uid },
  });
  it.each([
    ["of the batch Job that controls it", owner(BATCH_JOB), by(UID), true],
    ["of no other batch Job", owner(BATCH_JOB), by(OTHER), false],
    ["of no batch Job without a controller", { kind: BATCH_JOB, id: "train-" }, pod, false],
    ["of no batch Job that a job of Muster has the uid of", owner(BATCH_JOB), by(UID, "muster.dev/v1"), false],
    ["of a JobSet of its namespace, if a Job controls it", owner(JOB_SET), by(OTHER), true],
    ["of no JobSet without a Job", owner(JOB_SET), pod, false],
    ["of no JobSet if another kind controls it", owner(JOB_SET), by(OTHER, "apps/v1", "ReplicaSet"), false],
    ["of no JobSet of another namespace", owner(JOB_SET), { ...by(OTHER), namespace: "team-b" }, false],
    ["its own owner", owner(QUEUED_POD), { ...pod, uid: UID }, true],
    ["of no other pod", owner(QUEUED_POD), { ...pod, uid: OTHER }, false],
    ["of the Job of Muster that controls it", job, by(UID, "muster.dev/v1"), true],
    ["of the job of Kubeflow that controls it, in any version", job, by(UID, "kubeflow.org/v2beta1", "MPIJob"), true],
    ["of no job of Muster that another one has the uid of", job, by(OTHER, "muster.dev/v1"), false],
    ["of no job of a kind that the group lacks", job, by(UID, "muster.dev/v1", "TFJob"), false],
    ["of no job of another group", job, by(UID), false],
    ["of no job of a group that is a word of the language", job, by(UID, "constructor/v1"), false],
    ["of no job without a controller", job, pod, false],
    ["of no owner of another kind", { kind: "session", id: job.id }, by(UID, "muster.dev/v1"), false],
  ])("is %s", (_title, named, seen, expected) => {
    expect(canBeOwner(named, seen)).toBe(expected);
  });
});
