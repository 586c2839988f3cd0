import { isMusterKey, JOB_KEYS, JOB_LABEL_KEYS, MUSTER_KEYS } from "@muster/names";
import { annotations, labels } from "@muster/proto";
import { expect, it } from "vitest";
import { DEFAULTS, buildJobManifest, buildReplicaManifest } from "../../test/manifests.ts";
import { POOL_ANNOTATION } from "./choose-pool.ts";
import { JOB_KIND } from "./kind-job.ts";
import { SHARING_ANNOTATION } from "./read-sharing.ts";

const misspelt = { annotations: { "muster.dev/share": "shared" } };
const template = { metadata: misspelt, spec: { containers: [{ name: "main", image: "i" }] } };
const job = buildJobManifest("train", { replicaSpecs: { worker: buildReplicaManifest({ template }) } });

it("accepts every key that Muster itself writes", () => {
  const unknown = (keys: readonly string[], known: readonly string[]) =>
    keys.filter((key) => isMusterKey(key) && !known.includes(key));
  const read = JOB_KIND.read(job, DEFAULTS);
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  const ofMember = JOB_KIND.labels(
    { name: "train", namespace: "n", uid: "u" },
    { type: "worker", index: 0 },
    read.spec,
  );
  expect(Object.keys(ofMember)).toContain("muster.dev/job-role");
  const labelled = [...Object.values(labels), ...Object.keys(ofMember), ...JOB_LABEL_KEYS];
  expect(unknown(labelled, MUSTER_KEYS.labels)).toEqual([]);
  const written = [...Object.values(annotations), POOL_ANNOTATION, SHARING_ANNOTATION, ...JOB_KEYS];
  expect(unknown(written, MUSTER_KEYS.annotations)).toEqual([]);
});

it("warns of an unknown key on the job and on a template, and refuses nothing", () => {
  const result = JOB_KIND.read({ ...job, metadata: { name: "train", ...misspelt } }, DEFAULTS);
  const reason = 'has no effect with the string "shared": did you mean "muster.dev/sharing"?';
  expect(result).toMatchObject({
    ok: true,
    warnings: [
      { field: "metadata.annotations.muster.dev/share", reason },
      { field: "spec.replicaSpecs.worker.template.metadata.annotations.muster.dev/share", reason },
    ],
  });
});
