import { expect, it } from "vitest";
import {
  NOW_MS,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { findCondition, type Condition, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { PodFact } from "./snapshot.ts";
import { summariseState } from "./summarise-state.ts";

const noPlace = {
  phase: "Pending",
  node: undefined,
  trouble: { reason: "Unschedulable", message: "no room" },
} as const;
const noImage = { phase: "Pending", trouble: { reason: "ErrImagePull", message: "container main: denied" } } as const;

function after(pods: readonly PodFact[], status?: JobStatus, laterMs = 0): JobStatus {
  const wide = makeSpec({ replicas: [makeReplica("worker", pods.length)] });
  const world = { spec: wide, replicas: [makeReplicaSeen("worker", pods)], nowMs: NOW_MS + laterMs };
  return planJob(makeSnapshot({ ...world, ...(status !== undefined && { status }) }), POLICY).status;
}

function waits(status: JobStatus): Condition | undefined {
  return findCondition(status, "PodsWaiting");
}

it("names the first waiting pod in the order of the spec, and counts the others", () => {
  const many = [
    makePodFact("worker-0"),
    makePodFact("worker-1", noPlace),
    makePodFact("worker-2", noImage),
    makePodFact("worker-3", noPlace),
  ];
  expect(waits(after(many))).toMatchObject({
    status: "True",
    reason: "Unschedulable",
    message: "pod train-worker-1: Unschedulable: no room; 2 more pods wait",
  });
});

it("is a condition of a job whose other pods run", () => {
  const status = after([makePodFact("worker-0"), makePodFact("worker-1", noImage)]);
  expect(summariseState(status, 2)).toMatchObject({
    state: "Running",
    message: "pod train-worker-1: ErrImagePull: container main: denied",
  });
});

it("disappears as soon as no pod waits, and at the end of the job", () => {
  const status = after([makePodFact("worker-0"), makePodFact("worker-1", noPlace)]);
  expect(waits(after([makePodFact("worker-0"), makePodFact("worker-1")], status))).toBeUndefined();
  expect(
    waits(after([makePodFact("worker-0"), makePodFact("worker-1", { ...noPlace, deleting: true })], status)),
  ).toBeUndefined();
  const stopped = makeSnapshot({
    status,
    spec: makeSpec({ suspend: true }),
    replicas: [makeReplicaSeen("worker", [])],
  });
  expect(waits(planJob(stopped, POLICY).status)).toBeUndefined();
});

it("is in the message of a job that exceeds its deadline because of it", () => {
  const limited = makeSpec({ activeDeadlineMs: 60_000 });
  const world = { spec: limited, replicas: [makeReplicaSeen("worker", [makePodFact("worker-0", noPlace), undefined])] };
  const { status } = planJob(makeSnapshot(world), POLICY);
  const late = planJob(makeSnapshot({ ...world, status, nowMs: NOW_MS + 60_000 }), POLICY);
  expect(findCondition(late.status, "Failed")?.message).toBe(
    "active for longer than activeDeadlineSeconds, 60; pod train-worker-0: Unschedulable: no room",
  );
});

it("keeps its message for a while if the message of a kubelet alternates", () => {
  const status = after([makePodFact("worker-0", noImage)]);
  const again = { ...noImage, trouble: { reason: "ImagePullBackOff", message: "container main: back-off" } };
  const soon = after([makePodFact("worker-0", again)], status, POLICY.explainEveryMs - 1);
  expect(waits(soon)).toEqual(waits(status));
  const late = after([makePodFact("worker-0", again)], soon, POLICY.explainEveryMs);
  expect(waits(late)).toMatchObject({ reason: "ImagePullBackOff" });
  expect(waits(late)?.lastTransitionMs).toBe(waits(status)?.lastTransitionMs);
});

it("ignores pods of an earlier attempt", () => {
  const status = { ...after([makePodFact("worker-0")]), attempt: 1 };
  expect(waits(after([makePodFact("worker-0", noPlace)], status))).toBeUndefined();
});
