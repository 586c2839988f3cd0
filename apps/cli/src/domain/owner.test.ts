import { expect, it } from "vitest";
import { readOwner } from "./owner.ts";

it.each([
  ["train", { kind: "session", id: "train" }],
  ["session/train", { kind: "session", id: "train" }],
  ["job/train", { kind: "job", id: "train" }],
  ["batch-job/team-a-train-0a1b", { kind: "batch-job", id: "team-a-train-0a1b" }],
  ["batch-job/team-a/train", { kind: "batch-job", id: "train", namespace: "team-a" }],
  ["queued-pod/team-a/train/x", { trouble: expect.stringContaining('the name "train/x"') as string }],
  ["job-set//train", { trouble: expect.stringContaining("the namespace") as string }],
  ["job-set/team-a/", { trouble: 'the name is missing after "job-set/team-a/"' }],
  ["job/team-a/train", { trouble: expect.stringContaining('the name "team-a/train"') as string }],
  ["job-set/team-a-train-0a1b", { kind: "job-set", id: "team-a-train-0a1b" }],
  ["queued-pod/team-a-train-0a1b", { kind: "queued-pod", id: "team-a-train-0a1b" }],
  ["replica-set/web", { kind: "replica-set", id: "web" }],
  ["lease/l-1", { kind: "lease", id: "l-1" }],
  ["jobs/train", { trouble: '"jobs" is no kind of owner; did you mean "job/train"?' }],
  [
    "pod/train",
    {
      trouble: expect.stringMatching(
        /known are session, job, batch-job, job-set, queued-pod, replica-set, lease|did you mean/,
      ) as string,
    },
  ],
  ["job/", { trouble: 'the name is missing after "job/"' }],
  ["job/Train", { trouble: expect.stringContaining('the name "Train" is not a DNS name') as string }],
  ["tr*in", { trouble: expect.stringContaining("lower case letters") as string }],
  ["/x", { trouble: expect.stringContaining('"" is no kind of owner') as string }],
])("reads the owner %s, or describes its error", (text, owner) => {
  expect(readOwner(text)).toEqual(owner);
});
