import type { V1ContainerStatus, V1Pod } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { keepForeignPod, keepPod, mayBeMember, toPodFact } from "./read-pod.ts";

const CREATED = "2026-01-02T03:04:05Z";
const CREATED_MS = Date.parse(CREATED);

/** Times are text, as the API server sends them, contrary to client-node's types. */
function podOf(status: object, metadata: object = {}): V1Pod {
  return { metadata: { name: "a", uid: "u", creationTimestamp: CREATED, ...metadata }, status } as unknown as V1Pod;
}

function container(name: string, terminated?: object, more: Partial<V1ContainerStatus> = {}): object {
  return { name, restartCount: 0, ready: false, ...(terminated && { state: { terminated } }), ...more };
}

describe("the facts of a pod for the rules", () => {
  it.each<[string, V1Pod]>([
    ["nothing", {}],
    ["no status", { metadata: {} }],
    ["empty lists", podOf({ conditions: [], containerStatuses: [] }, { creationTimestamp: undefined })],
    ["invalid times", podOf({}, { creationTimestamp: "yesterday" })],
  ])("do not throw with %s", (_title, pod) => {
    expect(toPodFact(pod)).toMatchObject({ phase: "Unknown", ready: false, deleting: false, createdMs: 0, exits: [] });
    expect(toPodFact(pod).finishedMs).toBeUndefined();
  });

  it.each(["Pending", "Running", "Succeeded", "Failed", "Unknown"])("have the phase %s", (phase) => {
    expect(toPodFact(podOf({ phase })).phase).toBe(phase);
  });

  it.each(["", "Paused", undefined])("do not know the phase %j", (phase) => {
    expect(toPodFact(podOf({ phase })).phase).toBe("Unknown");
  });

  it.each<[string, string | undefined, number]>([
    ["that of the label", "3", 3],
    ["0 without the label", undefined, 0],
    ["0 for a negative number", "-1", 0],
    ["0 for a text", "three", 0],
    ["0 for a number that is too large", "1234567890", 0],
  ])("have an attempt: %s", (_title, attempt, expected) => {
    const written = attempt === undefined ? {} : { [labels.attempt]: attempt };
    expect(toPodFact(podOf({}, { labels: written })).attempt).toBe(expected);
  });

  it.each<[string, readonly object[], boolean]>([
    ["True", [{ type: "Ready", status: "True" }], true],
    ["False", [{ type: "Ready", status: "False" }], false],
    ["only other conditions", [{ type: "ContainersReady", status: "True" }], false],
    ["no conditions", [], false],
  ])("are ready only if the condition Ready is True: %s", (_title, conditions, ready) => {
    expect(toPodFact(podOf({ conditions })).ready).toBe(ready);
  });

  it.each<[string, string, readonly object[], number | undefined]>([
    ["that of the last container", "Failed", [at("03:04:10"), at("03:04:30"), at("03:04:20")], 25_000],
    ["none while it runs", "Running", [at("03:04:10")], undefined],
    ["none without a time", "Failed", [container("main", { exitCode: 1 })], undefined],
    ["none that cannot be read", "Failed", [container("main", { exitCode: 1, finishedAt: "soon" })], undefined],
    ["none without containers", "Succeeded", [], undefined],
  ])("have an end: %s", (_title, phase, containerStatuses, afterMs) => {
    const expected = afterMs === undefined ? undefined : CREATED_MS + afterMs;
    expect(toPodFact(podOf({ phase, containerStatuses })).finishedMs).toBe(expected);
  });

  it("start with the latest of the containers, whether that still runs or not", () => {
    const began = (...states: V1ContainerStatus["state"][]): number | undefined =>
      toPodFact(
        podOf({ containerStatuses: states.map((state) => container("main", undefined, { ...(state && { state }) })) }),
      ).startedMs;
    const startedAt = (afterMs: number): Date => new Date(CREATED_MS + afterMs);
    expect(began(undefined, { waiting: {} })).toBeUndefined();
    expect(began({ running: { startedAt: startedAt(3000) } }, { waiting: {} })).toBe(CREATED_MS + 3000);
    const ended = { terminated: { exitCode: 1, startedAt: startedAt(5000) } };
    expect(began({ running: { startedAt: startedAt(3000) } }, ended)).toBe(CREATED_MS + 5000);
  });

  it("count the restarts of all containers, including those before the main one", () => {
    const status = {
      initContainerStatuses: [container("init", undefined, { restartCount: 2 })],
      containerStatuses: [container("main", undefined, { restartCount: 3 }), container("side")],
    };
    expect(toPodFact(podOf(status)).containerRestarts).toBe(5);
  });

  it.each<[title: string, status: object, codes: number[]]>([
    ["a failed container", container("main", { exitCode: 3 }), [3]],
    ["no succeeded container", container("main", { exitCode: 0 }), []],
    [
      "a container that waits after a failure",
      container("main", undefined, {
        state: { waiting: { reason: "CrashLoopBackOff" } },
        lastState: { terminated: { exitCode: 3 } },
      }),
      [3],
    ],
    [
      "a container with only an earlier end",
      container("main", undefined, { lastState: { terminated: { exitCode: 3 } } }),
      [3],
    ],
    [
      "no restarted container without a start time",
      container("main", undefined, { state: { running: {} }, lastState: { terminated: { exitCode: 3 } } }),
      [],
    ],
    [
      "no container that the kubelet has lost and counted",
      container("main", undefined, {
        lastState: { terminated: { exitCode: 137, reason: "ContainerStatusUnknown" } },
      }),
      [],
    ],
    ["no container before its first run", container("main", undefined, { state: { waiting: {} } }), []],
  ])("include containers that are down after a failure: %s", (_title, status, codes) => {
    const kept = toPodFact(keepPod(podOf({ phase: "Running", containerStatuses: [status] })));
    expect(kept.down.map(({ code }) => code)).toEqual(codes);
    expect(toPodFact(keepPod(podOf({ phase: "Failed", containerStatuses: [status] }))).down).toEqual([]);
  });

  it("have exit codes by container after the end, and none before", () => {
    const status = {
      initContainerStatuses: [container("init", { exitCode: 0 })],
      containerStatuses: [container("main", { exitCode: 137 }), container("side")],
    };
    expect(toPodFact(podOf({ ...status, phase: "Failed" })).exits).toEqual([
      { container: "init", code: 0 },
      { container: "main", code: 137 },
    ]);
    expect(toPodFact(podOf({ ...status, phase: "Running" })).exits).toEqual([]);
  });

  it("have the member of the label, the node, the deletion and the reason of the end", () => {
    const metadata = { deletionTimestamp: CREATED, labels: { [labels.component]: "worker-3" } };
    const pod = { ...podOf({ phase: "Failed", reason: "Evicted" }, metadata), spec: { nodeName: "n", containers: [] } };
    expect(toPodFact(pod)).toMatchObject({ component: "worker-3", deleting: true, node: "n", reason: "Evicted" });
  });
});

describe("the cached part of a pod", () => {
  const whole = {
    ...podOf(
      {
        phase: "Failed",
        reason: "Evicted",
        conditions: [{ type: "Ready", status: "True", lastTransitionTime: CREATED, message: "long" }],
        initContainerStatuses: [container("init", { exitCode: 0, finishedAt: CREATED, message: "long" })],
        containerStatuses: [
          container(
            "main",
            { exitCode: 1, startedAt: CREATED, finishedAt: "2026-01-02T03:04:09Z" },
            { restartCount: 2, image: "long" },
          ),
        ],
      },
      { labels: { [labels.component]: "worker-0" }, annotations: { long: "long" }, managedFields: [{}] },
    ),
    spec: { nodeName: "n", containers: [{ name: "main", image: "long" }] },
  };

  it("is everything that the rules read, without long fields", () => {
    const { conditions, ...others } = toPodFact(whole);
    expect(toPodFact(keepPod(whole))).toEqual({
      ...others,
      conditions: conditions.map(({ type, status }) => ({ type, status })),
    });
    expect(JSON.stringify(keepPod(whole))).not.toContain("long");
  });

  const owner = (apiVersion: string, kind: string) => ({
    ownerReferences: [{ apiVersion, kind, name: "train", uid: "u", controller: true }],
  });
  it.each([
    ["with an owner label", { labels: { [labels.owner]: "train-u" } }, true],
    ["of a job, even without labels", owner("kubeflow.org/v1", "PyTorchJob"), true],
    [
      "without a controller but with the name of a job",
      { labels: { "training.kubeflow.org/job-name": "train" } },
      true,
    ],
    ["without a controller and labels", {}, false],
    [
      "of another controller, even with the name of a job",
      { ...owner("batch/v1", "Job"), labels: { "training.kubeflow.org/job-name": "train" } },
      false,
    ],
  ])("is whole only if a job may have the pod: %s", (_title, metadata, expected) => {
    expect(mayBeMember({ metadata })).toBe(expected);
  });

  it("is the name and the controller of a pod that no job can have", () => {
    const metadata = { name: "web", namespace: "n", uid: "u", ...owner("apps/v1", "ReplicaSet") };
    const pod = { ...whole, metadata: { ...metadata, labels: { app: "web" }, annotations: { long: "long" } } };
    expect(keepForeignPod(pod)).toEqual({ metadata });
  });

  it("has the machine for which it was created and the scheduler's reason, until it has a node", () => {
    const matchFields = [{ key: "metadata.name", operator: "In", values: ["n"] }];
    const nodeSelectorTerms = [{ matchExpressions: [{ key: "long", operator: "Exists" }], matchFields }];
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
    const conditions = [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "no room" }];
    const trouble = { reason: "Unschedulable", message: "no room" };
    const unbound = keepPod({ ...podOf({ conditions }), spec: { affinity, containers: [] } });
    expect(toPodFact(unbound)).toMatchObject({ node: undefined, pinned: "n", trouble });
    expect(JSON.stringify(unbound)).not.toContain("long");
    const bound = keepPod({ ...podOf({}), spec: { affinity, nodeName: "n", containers: [] } });
    expect(toPodFact(bound)).toMatchObject({ node: "n", pinned: undefined, trouble: undefined });
    expect(bound.spec?.affinity).toBeUndefined();
  });

  it.each<[string, V1Pod]>([
    ["nothing", {}],
    ["a status without anything", { metadata: {}, status: {} }],
  ])("has no undefined field with %s", (_title, pod) => {
    const kept = keepPod(pod);
    expect(Object.keys({ ...kept.metadata, ...kept.status })).toEqual([]);
    expect(keepPod(kept)).toEqual(kept);
  });
});

function at(time: string): object {
  return container("main", { exitCode: 1, finishedAt: `2026-01-02T${time}Z` });
}
