import type { V1Pod } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { NOW_MS, POLICY, makeReplica, makeReplicaSeen, makeSnapshot, makeSpec } from "../../test/samples.ts";
import type { Condition } from "../domain/job-status.ts";
import { planJob } from "../domain/plan-job.ts";
import { summariseMembers } from "../domain/summarise-members.ts";
import { keepPod, toPodFact } from "./read-pod.ts";

const CREATED = new Date(NOW_MS - 50_000).toISOString();
const ENDED = new Date(NOW_MS - 5000).toISOString();
const OCI =
  'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "mpirun": executable file not found in $PATH: unknown';
const NO_IMAGE =
  'Back-off pulling image "registry.test/none:1": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "registry.test/none:1": not found';
const NO_PLACE =
  "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
const BACK_OFF = "back-off 40s restarting failed container=main pod=train-worker-0_default(5c1f)";

/** Builds a pod with the status of kubelets and schedulers, as the cache keeps it. */
function podWith(status: object): ReturnType<typeof toPodFact> {
  const metadata = { name: "train-worker-0", uid: "u", creationTimestamp: CREATED };
  const of = { ...metadata, labels: { [labels.component]: "worker-0" } };
  return toPodFact(keepPod({ metadata: of, status } as unknown as V1Pod));
}

function container(name: string, state: object, lastState: object = {}, restartCount = 0): object {
  return { name, ready: false, started: false, restartCount, image: "image", imageID: "", state, lastState };
}

function terminated(exitCode: number, reason: string, message?: string): object {
  return { terminated: { exitCode, reason, startedAt: CREATED, finishedAt: ENDED, containerID: "c", message } };
}

function waiting(reason: string, message?: string): object {
  return { waiting: { reason, message } };
}

function unplaced(reason: string, message: string): object {
  return { phase: "Pending", conditions: [{ type: "PodScheduled", status: "False", reason, message }] };
}

type Asked = { readonly restartPolicy?: "Never" | "OnFailure"; readonly backoffLimit?: number };

/** Returns the conditions of a job whose only pod has this status. */
function conditionsAfter(
  status: object,
  { restartPolicy = "OnFailure", backoffLimit }: Asked = {},
): readonly Condition[] {
  const job = makeSpec({ replicas: [makeReplica("worker", 2, { restartPolicy })], backoffLimit });
  const world = { spec: job, replicas: [makeReplicaSeen("worker", [podWith(status), undefined])] };
  return planJob(makeSnapshot(world), POLICY).status.conditions;
}

describe("the failure of a job states the failure of its pod:", () => {
  const failed = (...containerStatuses: object[]): object => ({ phase: "Failed", containerStatuses });
  it.each<[title: string, status: object, message: string]>([
    [
      "a missing command",
      failed(container("main", terminated(128, "StartError", OCI))),
      `exit code 128: StartError: ${OCI}`,
    ],
    ["an exceeded memory limit", failed(container("main", terminated(137, "OOMKilled"))), "exit code 137: OOMKilled"],
    ["only the code if no reason adds to it", failed(container("main", terminated(3, "Error"))), "exit code 3"],
    [
      "the container's termination message",
      failed(container("main", terminated(1, "Error", "no licence\n"))),
      "exit code 1: no licence",
    ],
    [
      "the failed container if the main one did not run",
      {
        ...failed(container("main", waiting("PodInitializing"))),
        initContainerStatuses: [container("fetch", terminated(6, "Error", "no such host"))],
      },
      "exit code 6 of container fetch: no such host",
    ],
    [
      "the reason of the whole pod",
      {
        ...failed(container("main", terminated(137, "Error"))),
        ...{ reason: "Evicted", message: "The node was low on resource: ephemeral-storage." },
      },
      "exit code 137: Evicted: The node was low on resource: ephemeral-storage.",
    ],
  ])("%s", (_title, status, message) => {
    const expected = { type: "Failed", reason: "PodFailed", message: `pod train-worker-0 failed with ${message}` };
    expect(conditionsAfter(status, { restartPolicy: "Never" }).at(-1)).toMatchObject(expected);
    const limit = `1 failure, and backoffLimit is 0; ${expected.message}`;
    expect(conditionsAfter(status, { backoffLimit: 0 }).at(-1)).toMatchObject({ type: "Failed", message: limit });
    const restart = `restart 1 of 6 in 5 s: ${expected.message}`;
    expect(conditionsAfter(status, { backoffLimit: 6 }).at(-1)).toMatchObject({ type: "Restarting", message: restart });
  });

  it.each<[title: string, state: object]>([
    ["before the kubelet delays it", terminated(137, "OOMKilled")],
    ["while the kubelet delays it", waiting("CrashLoopBackOff", BACK_OFF)],
  ])("the last exit of a container that failed once too often, %s", (_title, state) => {
    const down = container("main", state, terminated(137, "OOMKilled"), 1);
    const said = "2 failures, and backoffLimit is 1; pod train-worker-0 is down after exit code 137: OOMKilled";
    const status = { phase: "Running", containerStatuses: [down] };
    expect(conditionsAfter(status, { backoffLimit: 1 }).at(-1)).toMatchObject({ type: "Failed", message: said });
    expect(conditionsAfter(status, { backoffLimit: 2 }).map(({ type }) => type)).not.toContain("Failed");
  });

  it("the last exit of a container that was restarted too often", () => {
    const again = container("main", { running: { startedAt: ENDED } }, terminated(137, "OOMKilled"), 3);
    const said = "3 failures, and backoffLimit is 2; pod train-worker-0 was restarted after exit code 137: OOMKilled";
    const status = { phase: "Running", containerStatuses: [again] };
    expect(conditionsAfter(status, { backoffLimit: 2 }).at(-1)).toMatchObject({ type: "Failed", message: said });
  });
});

describe("the job's PodsWaiting condition states why a pod does not start:", () => {
  const pending = (...containerStatuses: object[]): object => ({ phase: "Pending", containerStatuses });
  it.each<[title: string, status: object, reason: string, message: string]>([
    ["no machine accepts it", unplaced("Unschedulable", NO_PLACE), "Unschedulable", NO_PLACE],
    [
      "a scheduling gate",
      unplaced("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"),
      "SchedulingGated",
      "Scheduling is blocked due to non-empty scheduling gates",
    ],
    [
      "an unavailable image",
      pending(container("main", waiting("ImagePullBackOff", NO_IMAGE))),
      "ImagePullBackOff",
      `container main: ${NO_IMAGE}`,
    ],
    [
      "the missing settings",
      pending(container("main", waiting("CreateContainerConfigError", 'configmap "settings" not found'))),
      "CreateContainerConfigError",
      'container main: configmap "settings" not found',
    ],
    [
      "repeated failures, and their cause",
      {
        phase: "Running",
        containerStatuses: [container("main", waiting("CrashLoopBackOff", BACK_OFF), terminated(137, "OOMKilled"), 3)],
      },
      "CrashLoopBackOff",
      `container main: it ended with exit code 137: OOMKilled; ${BACK_OFF}`,
    ],
    [
      "repeated failures, with only a code",
      {
        phase: "Running",
        containerStatuses: [container("main", waiting("CrashLoopBackOff", BACK_OFF), terminated(42, "Error"), 3)],
      },
      "CrashLoopBackOff",
      `container main: it ended with exit code 42; ${BACK_OFF}`,
    ],
    [
      "a missing command, during the retries",
      {
        phase: "Running",
        containerStatuses: [
          container("main", waiting("CrashLoopBackOff", BACK_OFF), terminated(128, "StartError", OCI), 1),
        ],
      },
      "CrashLoopBackOff",
      `container main: it ended with exit code 128: StartError: ${OCI}; ${BACK_OFF}`,
    ],
    [
      "the trouble of the first container, and not the wait of the others",
      {
        ...pending(container("main", waiting("PodInitializing"))),
        initContainerStatuses: [container("fetch", waiting("ErrImagePull", "denied"))],
      },
      "ErrImagePull",
      "container fetch: denied",
    ],
  ])("%s", (_title, status, reason, message) => {
    const said = conditionsAfter(status).find(({ type }) => type === "PodsWaiting");
    expect(said).toMatchObject({ status: "True", reason, message: `pod train-worker-0: ${reason}: ${message}` });
    const [member] = summariseMembers(makeSpec(), makeSnapshot().status, [podWith(status)], []);
    expect(member?.message).toContain(`${reason}: ${message}`);
  });

  it.each([
    ["a container that is being created", pending(container("main", waiting("ContainerCreating")))],
    ["a container that waits for others of its pod", pending(container("main", waiting("PodInitializing")))],
    ["a pod without a status", { phase: "Pending" }],
  ])("no trouble for %s", (_title, status) => {
    expect(conditionsAfter(status).map(({ type }) => type)).toEqual(["Created", "MachinesReserved"]);
  });
});

it("truncates messages of runtimes to the size of a message", () => {
  const words = "x".repeat(5000);
  const all = [
    {
      phase: "Failed",
      reason: words,
      message: words,
      containerStatuses: [container("main", terminated(1, "E", words))],
    },
    unplaced("Unschedulable", words),
    { phase: "Pending", containerStatuses: [container("main", waiting("ErrImagePull", words))] },
  ];
  for (const status of all) {
    const said = conditionsAfter(status, { restartPolicy: "Never" }).at(-1)?.message ?? "";
    expect(said.length).toBeGreaterThan(500);
    expect(said.length).toBeLessThanOrEqual(1024);
  }
});
