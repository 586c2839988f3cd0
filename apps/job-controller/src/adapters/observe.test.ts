import type { V1Pod } from "@kubernetes/client-node";
import { annotations, labels } from "@muster/proto";
import { expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { makeSpec } from "../../test/samples.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import { buildOwnerLabels } from "../domain/member-metadata.ts";
import { renameMember } from "./observe.ts";
import { readJob } from "./read-job.ts";

const { replicaTypeLabelKey, replicaIndexLabelKey } = JOB_KIND.labelKeys;

const metadata = { name: "train", namespace: "default", uid: "uid" };
const job = { ...readJob({ metadata }, JOB_KIND, DEFAULTS), spec: makeSpec() };
const member = { type: "worker", index: 1 };
const MADE: Readonly<Record<string, string>> = {
  ...JOB_KIND.labels(job.metadata, member, job.spec),
  ...buildOwnerLabels({ job: metadata }, { labels, annotations }),
  [labels.component]: "worker-1",
};
const podNamed = (name: string, written: Readonly<Record<string, string>>): V1Pod => ({
  metadata: { name, labels: { ...written, own: "kept" } },
});

it.each([replicaTypeLabelKey, replicaIndexLabelKey, labels.component])(
  "restores the label %s of a pod with a member's name",
  (key) => {
    const { [key]: _, ...left } = MADE;
    for (const written of [left, { ...left, [key]: "other" }])
      expect(renameMember(JOB_KIND, job, podNamed("train-worker-1", written))).toEqual(
        podNamed("train-worker-1", MADE),
      );
  },
);

it("leaves a pod of any other name unchanged", () => {
  const other = podNamed("by-hand", {});
  expect(renameMember(JOB_KIND, job, other)).toEqual(other);
});
