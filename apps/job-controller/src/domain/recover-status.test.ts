import { expect, it } from "vitest";
import {
  makeEndedPod,
  JOB,
  NOW_MS,
  makePodFact,
  POLICY,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { NEW_STATUS, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";

const timeless = (type: "Created" | "Succeeded") =>
  ({ type, status: "True", reason: "", message: "", lastUpdateMs: 0, lastTransitionMs: 0 }) as const;
const over: JobStatus = { ...NEW_STATUS, observedGeneration: 1, conditions: [timeless("Succeeded")] };
const TTL_MS = 60_000;
const kept = makeSpec({ ttlAfterFinishedMs: TTL_MS, cleanPodPolicy: "None" });
const idle = { spec: kept, units: [], replicas: [makeReplicaSeen("worker", [undefined, undefined])] };

it("continues with the attempt of the pods if the progress of a job is lost, and counts succeeded pods as completed", () => {
  const replicas = [
    makeReplicaSeen("worker", [makeEndedPod("worker-0", 0, { attempt: 2 }), makePodFact("worker-1", { attempt: 2 })]),
  ];
  const { status, steps } = planJob(makeSnapshot({ replicas, budget: 2 }), POLICY);
  expect(status).toMatchObject({ attempt: 2, replicas: [{ completedIndexes: [0] }] });
  expect(steps).toEqual([]);
});

it("does not take the attempt of a single pod among others", () => {
  const replicas = [makeReplicaSeen("worker", [makePodFact("worker-0", { attempt: 7 }), makePodFact("worker-1")])];
  expect(planJob(makeSnapshot({ replicas }), POLICY).status.attempt).toBe(0);
});

it("keeps a job whose end has no time for its full time to live from now, and records the time once", () => {
  const first = planJob(makeSnapshot({ ...idle, status: over }), POLICY);
  expect(first).toMatchObject({ steps: [], status: { completionMs: NOW_MS } });
  const status = first.status;
  expect(planJob(makeSnapshot({ ...idle, status, nowMs: NOW_MS + TTL_MS - 1 }), POLICY)).toMatchObject({
    steps: [],
    status,
  });
  const last = planJob(makeSnapshot({ ...idle, status, nowMs: NOW_MS + TTL_MS }), POLICY);
  expect(last.steps.map((step) => step.kind)).toEqual(["delete-job"]);
});

it("takes the end from the time of its condition if only that was written", () => {
  const endMs = NOW_MS - TTL_MS;
  const conditions = [{ ...timeless("Succeeded"), lastUpdateMs: endMs, lastTransitionMs: endMs }];
  const plan = (nowMs: number) =>
    planJob(makeSnapshot({ ...idle, nowMs, status: { ...over, conditions } }), POLICY).steps;
  expect(plan(NOW_MS - 1)).toEqual([]);
  expect(plan(NOW_MS).map((step) => step.kind)).toEqual(["delete-job"]);
});

it("gives other conditions the creation time of the job", () => {
  const status = { ...NEW_STATUS, conditions: [timeless("Created")] };
  expect(planJob(makeSnapshot({ status }), POLICY).status.conditions[0]?.lastTransitionMs).toBe(JOB.createdMs);
});
