import { expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { makeEndedPod, NOW_MS, makePodFact, POLICY } from "../../test/samples.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import type { PodFact } from "../domain/snapshot.ts";
import { toWireJob } from "./job-messages.ts";
import { readJob, type JobResource } from "./read-job.ts";

const restarting: JobResource = {
  apiVersion: "muster.dev/v1",
  kind: "Job",
  metadata: { name: "train", namespace: "default", uid: "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9" },
  spec: {
    replicaSpecs: {
      worker: {
        replicas: 2,
        restartPolicy: "OnFailure",
        template: { spec: { containers: [{ name: "main", image: "image" }] } },
      },
    },
  },
  status: {
    conditions: [{ type: "Restarting", status: "True", reason: "JobRestarting", message: "restart 3 of 6 in 40 s" }],
    replicaStatuses: { worker: { restarts: 3, counted: [{ pod: "uid-worker-1", failures: 1 }] } },
  },
};

function waitOf(...pods: readonly PodFact[]): string {
  return waitOfJob(restarting, pods);
}

function waitOfJob(resource: JobResource, pods: readonly PodFact[] = []): string {
  const job = readJob(resource, JOB_KIND, DEFAULTS);
  return toWireJob(job, { pods, units: [], pauses: POLICY, nowMs: NOW_MS }).waitingBecause ?? "";
}

it.each<[title: string, pods: readonly PodFact[], wait: string]>([
  [
    "for the time that remains now, whatever was written",
    [makeEndedPod("worker-1", 1, { finishedMs: NOW_MS - 15_000 })],
    "25 s",
  ],
  ["no longer once it is due", [makeEndedPod("worker-1", 1, { finishedMs: NOW_MS - 40_000 })], ""],
  ["no longer once its pod is created", [makePodFact("worker-0"), makePodFact("worker-1", { phase: "Pending" })], ""],
])("a job that restarts waits %s", (_title, pods, left) => {
  expect(waitOf(...pods)).toBe(
    left === "" ? "" : `restart 3 of 6 in ${left}: pod train-worker-1 failed with exit code 1`,
  );
});

it("a new job waits for a controller before it waits for the ledger", () => {
  const { status: _, ...fresh } = restarting;
  expect(waitOfJob(fresh)).toBe("no leading job-controller has made a pass over it yet");
  expect(waitOfJob(fresh, [makePodFact("worker-0")])).toBe("");
  const conditions = [
    { type: "Created", status: "True", reason: "JobCreated", message: "the job was accepted" },
  ] as const;
  expect(waitOfJob({ ...fresh, status: { conditions: [...conditions] } })).toBe("the ledger has not answered yet");
});

it("includes the namespace of a job, which the HTTP API needs for its path", () => {
  const job = readJob(restarting, JOB_KIND, DEFAULTS);
  expect(toWireJob(job, { pods: [], units: [], pauses: POLICY, nowMs: NOW_MS }).key).toEqual({
    kind: "Job",
    name: "train",
    namespace: "default",
  });
});
