import type { KubeObject, KubeResource } from "@muster/kube";
import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { NOW_MS, POLICY, makeSnapshot } from "../../test/samples.ts";
import { findCondition } from "../domain/job-status.ts";
import { MPIJOB_KIND } from "../domain/kind-mpijob.ts";
import { planJob } from "../domain/plan-job.ts";
import { findMissingCompanions } from "./companions.ts";
import { readJob, type JobResource } from "./read-job.ts";

const template = { spec: { containers: [{ name: "mpi", image: "image" }] } };
const resource: JobResource = {
  apiVersion: "kubeflow.org/v1",
  kind: "MPIJob",
  metadata: { name: "train", namespace: "default", uid: "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9" },
  spec: { mpiReplicaSpecs: { Launcher: { replicas: 1, template }, Worker: { replicas: 1, template } } },
};

/** Runs one pass against an API server that answers each request with this error. */
async function look(job: JobResource, error: Error) {
  const asked: string[] = [];
  const row = readJob(job, MPIJOB_KIND, DEFAULTS);
  if ("problems" in row.spec) throw new Error("the job can be read");
  const companions = MPIJOB_KIND.companions(row.metadata, row.spec, DEFAULTS);
  const named = new Map(companions.map((each) => [`${each.kind}/${each.metadata.name}`, each]));
  const get = <Object extends KubeObject>({ plural }: KubeResource): Promise<Object> => {
    asked.push(plural);
    return Promise.reject(error);
  };
  return { seen: await findMissingCompanions({ get }, row, named), asked };
}

const forbidden = new FaultError({ code: "invalid_request", field: "configmaps", reason: "is forbidden" });
const absent = new FaultError({ code: "not_found", kind: "object", id: "train-config" });

it("names the missing objects that a job needs beside its pods", async () => {
  const { seen } = await look(resource, absent);
  expect(seen.companionsMissing).toContain("ConfigMap/train-config");
  expect(seen.companionsRefused).toBeUndefined();
});

it("names the file that grants the missing right in the job's status, and creates no pod meanwhile", async () => {
  const { seen, asked } = await look(resource, forbidden);
  expect(seen.companionsRefused).toMatch(/rights\.mpijobs=true.* or apply deploy\/kubernetes\/mpijobs\.yaml/);
  expect(asked).toHaveLength(1);
  const { status, steps } = planJob(makeSnapshot({ ...seen, nowMs: NOW_MS }), POLICY);
  expect(findCondition(status, "MachinesReserved")).toMatchObject({
    status: "True",
    reason: "RightsMissing",
    message: expect.stringContaining("rights.mpijobs=true") as unknown,
  });
  expect(steps.map((step) => step.kind)).not.toContain("create-pods");
  const after = planJob(makeSnapshot({ status }), POLICY);
  expect(findCondition(after.status, "MachinesReserved")?.reason).toBe("MachinesGranted");
});

it("continues with any other error: the next pass may succeed", async () => {
  const silent = new FaultError({ code: "unavailable", dependency: "kubernetes", retryAfterMs: 1 });
  await expect(look(resource, silent)).rejects.toThrow(silent);
});

it.each<[string, Partial<JobResource>]>([
  ["is over", { status: { conditions: [{ type: "Failed", status: "True", reason: "PodFailed", message: "" }] } }],
  ["is suspended", { spec: { ...(resource.spec as object), runPolicy: { suspend: true } } }],
  [
    "another controller has",
    { spec: { ...(resource.spec as object), runPolicy: { managedBy: "kueue.x-k8s.io/multikueue" } } },
  ],
  ["is being deleted", { metadata: { ...resource.metadata, deletionTimestamp: new Date(NOW_MS) } }],
])("reads no companion of a job which %s", async (_what, more) => {
  expect((await look({ ...resource, ...more }, absent)).asked).toEqual([]);
});
