import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { CheckedSchema } from "@muster/documents";
import { nameManifest, readJobDocument } from "./read-job-document.ts";

const path = new URL("../../../../schemas/job.schema.json", import.meta.url);
const SCHEMA = JSON.parse(readFileSync(path, "utf8")) as CheckedSchema;

const WORKER = { replicas: 2, template: { spec: { containers: [] } } };
function job(spec: unknown = { replicaSpecs: { worker: WORKER } }, more: object = {}): object {
  return { apiVersion: "muster.dev/v1", kind: "Job", metadata: { name: "train" }, spec, ...more };
}
const withWorker = (more: object): object => job({ replicaSpecs: { worker: { ...WORKER, ...more } } });

it.each<[title: string, document: unknown, findings: string[]]>([
  ["no mapping", "job", [': must be a mapping, not the string "job"']],
  ["an empty one", {}, [": lacks apiVersion", ": lacks kind", ": lacks metadata", ": lacks spec"]],
  [
    "another version",
    job(undefined, { apiVersion: "muster.dev/v2" }),
    ['apiVersion: must be one of muster.dev/v1, not the string "muster.dev/v2"; did you mean "muster.dev/v1"?'],
  ],
  ["an unknown field", withWorker({ image: "x" }), [expect.stringContaining('unknown field "image"; known are')]],
  [
    "a slip, reported once",
    job({ replicaSpec: { worker: WORKER } }),
    ['spec.replicaSpec: unknown field "replicaSpec"; did you mean "replicaSpecs"?'],
  ],
  [
    "a misspelt annotation of Muster",
    job(undefined, { metadata: { name: "train", annotations: { "muster.dev/share": "shared" } } }),
    [
      'metadata.annotations.muster.dev/share: has no effect with the string "shared": did you mean "muster.dev/sharing"?',
    ],
  ],
  ["a status", job(undefined, { status: {} }), [expect.stringContaining('unknown field "status"')]],
  ["no roles", job({ replicaSpecs: {} }), ["spec.replicaSpecs: needs at least 1, and has 0"]],
  [
    "too many pods",
    withWorker({ replicas: 1001 }),
    ["spec.replicaSpecs.worker.replicas: must be a whole number from 0 to 1000, not the number 1001"],
  ],
  [
    "more retries than an int32 holds",
    job({ replicaSpecs: { worker: WORKER }, runPolicy: { backoffLimit: 2 ** 31 } }),
    ["spec.runPolicy.backoffLimit: must be a whole number from 0 to 2147483647, not the number 2147483648"],
  ],
  [
    "a word that is none of those",
    withWorker({ restartPolicy: "Sometimes" }),
    [
      'spec.replicaSpecs.worker.restartPolicy: must be one of Always, OnFailure, Never, ExitCode, not the string "Sometimes"',
    ],
  ],
  [
    "text where a switch is",
    job({ replicaSpecs: { worker: WORKER }, runPolicy: { suspend: "yes" } }),
    ["spec.runPolicy.suspend: must be true or false"],
  ],
  [
    "an empty list of rules",
    job({ replicaSpecs: { worker: WORKER }, successPolicy: { rules: [] } }),
    ["spec.successPolicy.rules: needs at least 1, and has 0"],
  ],
  [
    "no name",
    job(undefined, { metadata: {} }),
    ["metadata: lacks name (or generateName, to which random letters are added)"],
  ],
  [
    "a name that is none",
    job(undefined, { metadata: { name: "Train!" } }),
    [expect.stringContaining('metadata.name: "Train!" is not a DNS name')],
  ],
])("refuses %s, and names the field", (_title, document, findings) => {
  const read = readJobDocument(document, "muster.dev/v1", SCHEMA);
  expect(read.ok ? [] : read.findings.map(({ path: at, message }) => `${at.join(".")}: ${message}`)).toEqual(findings);
});

it("checks only the frame if no schema is known", () => {
  const tfjob = {
    ...job({ tfReplicaSpecs: { Worker: { image: "x" } } }),
    apiVersion: "kubeflow.org/v1",
    kind: "TFJob",
  };
  expect(readJobDocument(tfjob, "kubeflow.org/v1", undefined).ok).toBe(true);
  expect(readJobDocument({ ...tfjob, apiVersion: "kubeflow.org/v2" }, "kubeflow.org/v1", undefined).ok).toBe(false);
});

it("sends the document unchanged under its generated name", () => {
  const labels = { team: "a" };
  const read = readJobDocument(
    job(undefined, { metadata: { generateName: "train-", labels } }),
    "muster.dev/v1",
    SCHEMA,
  );
  if (!read.ok) throw new Error("a right document was refused");
  expect(read.value.name).toEqual({ prefix: "train-" });
  expect(nameManifest(read.value.manifest, "train-x7k2p")).toEqual(
    job(undefined, { metadata: { labels, name: "train-x7k2p" } }),
  );
});
