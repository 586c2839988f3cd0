import type { V1Pod } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import { expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { spec } from "../../test/samples.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import { byOwnName } from "./observe.ts";
import { readJob } from "./read-job.ts";

const { replicaTypeLabelKey, replicaIndexLabelKey } = JOB_KIND.labelKeys;
const MADE = { [replicaTypeLabelKey]: "worker", [replicaIndexLabelKey]: "1", [labels.component]: "worker-1" };

const metadata = { name: "train", namespace: "default", uid: "uid" };
const job = { ...readJob({ metadata }, JOB_KIND, DEFAULTS), spec: spec() };
const runtime = { controller: { genMember: () => ({ name: "train-worker-1", labels: MADE }) }, kind: JOB_KIND };
const podNamed = (name: string, written: Readonly<Record<string, string>>): V1Pod => ({
  metadata: { name, labels: { ...written, own: "kept" } },
});

it.each(Object.keys(MADE))("looks at a pod under a member's name with the label %s that was taken from it", (key) => {
  const { [key]: _, ...left } = MADE;
  for (const written of [left, { ...left, [key]: "other" }])
    expect(byOwnName(runtime, job, podNamed("train-worker-1", written))).toEqual(podNamed("train-worker-1", MADE));
});

it("leaves a pod of any other name as it is", () => {
  const other = podNamed("by-hand", {});
  expect(byOwnName(runtime, job, other)).toEqual(other);
});
