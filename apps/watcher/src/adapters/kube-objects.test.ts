import { KubeConfig, type V1Node, type V1Pod } from "@kubernetes/client-node";
import { decidePodHealth } from "@muster/health";
import { buildBatchOwnerId, buildSessionElsewhereId, JOB_SET } from "@muster/names";
import { annotations, labels, schedulingGates } from "@muster/proto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readConfig } from "../config.ts";
import { makePodReader, buildGroupRules, toWatchedNode, toWatchedPod } from "./kube-objects.ts";

const created = "2026-01-01T00:00:00Z";

/** Converts an object to the JSON of a watch, in which times are text. */
function json(value: object): unknown {
  return JSON.parse(JSON.stringify(value));
}

function pod(part: { readonly owner?: object; readonly spec?: object; readonly status?: object } = {}): V1Pod {
  return json({
    metadata: {
      name: "p",
      namespace: "ns",
      uid: "u",
      resourceVersion: "12",
      creationTimestamp: created,
      labels: part.owner ?? {
        [labels.ownerKind]: "session",
        [labels.owner]: "s",
        [labels.component]: "driver",
        [labels.exclusive]: "true",
      },
      annotations: { [annotations.mainContainer]: "main" },
    },
    spec: { nodeName: "n", restartPolicy: "Never", containers: [{ name: "main", image: "i" }], ...part.spec },
    status: { phase: "Running", podIP: "1.2.3.4", ...part.status },
  }) as V1Pod;
}

describe("a watched pod", () => {
  it("keeps the published facts and those that health depends on", () => {
    expect(toWatchedPod(pod())).toMatchObject({
      owner: { kind: "session", id: "s" },
      component: "driver",
      namespace: "ns",
      name: "p",
      uid: "u",
      resourceVersion: 12,
      createdAtMs: Date.parse(created),
      podIp: "1.2.3.4",
      node: "n",
      deleting: false,
      exclusive: true,
      finished: false,
      mainContainer: "main",
    });
  });

  it.each([
    ["no owner", {}],
    ["no kind of owner", { [labels.owner]: "s" }],
    ["an owner that cannot be a part of a key", { [labels.ownerKind]: "session", [labels.owner]: "a..b" }],
  ])("is ignored with %s", (_title, owner) => {
    expect(toWatchedPod(pod({ owner }))).toBeUndefined();
  });

  it.each([
    ["Pending", "behind Muster's own gate", [schedulingGates.unconfirmed]],
    ["Pending", "whose gate has just gone", []],
    ["SchedulingGated", "behind another's gate", [schedulingGates.unconfirmed, "example.com/quota"]],
  ])("is %s %s", (reason, _title, gates) => {
    const spec = { nodeName: undefined, schedulingGates: gates.map((name) => ({ name })) };
    const conditions = [{ type: "PodScheduled", status: "False", reason: "SchedulingGated", message: "gated" }];
    const seen = toWatchedPod(pod({ spec, status: { phase: "Pending", conditions } }));
    expect(decidePodHealth(seen!.facts, { startGraceMs: 1000, nowMs: 0 })).toMatchObject({
      health: "NOT_READY",
      reason,
    });
  });

  it.each([
    ["Succeeded", true],
    ["Failed", true],
    ["Unknown", false],
    ["Pending", false],
  ])("in phase %s is finished: %s", (phase, finished) => {
    expect(toWatchedPod(pod({ status: { phase } }))?.finished).toBe(finished);
  });

  it("is judged as the whole pod would be", () => {
    const state = fc.constantFrom<object>(
      { running: { startedAt: created } },
      { waiting: { reason: "ImagePullBackOff", message: "no" } },
      { waiting: { reason: "CrashLoopBackOff" } },
      { terminated: { exitCode: 0, reason: "Completed", finishedAt: created, containerID: "x" } },
      { terminated: { exitCode: 1, finishedAt: created } },
      {},
    );
    const status = fc.record({ name: fc.constantFrom("main", "other"), ready: fc.boolean(), state, lastState: state });
    const any = fc.record(
      {
        status: fc.record(
          {
            phase: fc.constantFrom("Pending", "Running", "Succeeded", "Failed", "Unknown"),
            reason: fc.constantFrom("Evicted", "NodeLost"),
            message: fc.string(),
            startTime: fc.constant(created),
            containerStatuses: fc.array(status),
            initContainerStatuses: fc.array(status),
            conditions: fc.subarray<object>([
              {
                type: "PodScheduled",
                status: "False",
                reason: "Unschedulable",
                message: "no",
                lastTransitionTime: created,
              },
              { type: "Ready", status: "False" },
              { type: "DisruptionTarget", status: "True", reason: "x", lastTransitionTime: created },
            ]),
          },
          { requiredKeys: [] },
        ),
        spec: fc.record(
          {
            restartPolicy: fc.constantFrom("Always", "Never", "OnFailure"),
            containers: fc.constantFrom(
              [{ name: "main", readinessProbe: { httpGet: {} } }],
              [{ name: "main" }, { name: "other" }],
            ),
            initContainers: fc.constant([{ name: "other", restartPolicy: "Always" }]),
          },
          { requiredKeys: [] },
        ),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(any, fc.nat(300_000), (part, afterMs) => {
        const whole = pod(part);
        const policy = { startGraceMs: 120_000, nowMs: Date.parse(created) + afterMs, mainContainer: "main" };
        expect(decidePodHealth(toWatchedPod(whole)!.facts, policy)).toEqual(decidePodHealth(whole, policy));
      }),
    );
  });
});

describe("a pod of the cluster", () => {
  const readPod = makePodReader({
    systemNamespaces: ["kube-system", "monitoring"],
    servicesNamespace: "muster-system",
    workNamespace: "ns",
  });
  const containers = [{ name: "main", image: "i", resources: { requests: { cpu: "250m", memory: "1Gi" } } }];
  const read = (
    { labels: own = {}, ...metadata }: { readonly labels?: object } & Readonly<Record<string, unknown>> = {},
    status: object = {},
  ) => {
    const { metadata: all, ...rest } = pod({ spec: { containers }, owner: own, status });
    return readPod(json({ ...rest, metadata: { ...all, annotations: {}, ...metadata } }) as V1Pod);
  };
  const service = { "app.kubernetes.io/part-of": "muster" };
  const controlledBy = (kind: string, controller = true, apiVersion = "apps/v1") => ({
    ownerReferences: [{ apiVersion, kind, name: "d", uid: "u", controller }],
  });

  it.each<[string, Readonly<Record<string, unknown>>, "overhead" | "foreign"]>([
    ["that is controlled by a DaemonSet", controlledBy("DaemonSet"), "overhead"],
    ["that a DaemonSet only owns", controlledBy("DaemonSet", false), "foreign"],
    [
      "that is controlled by another kind of DaemonSet",
      controlledBy("DaemonSet", true, "apps.kruise.io/v1"),
      "foreign",
    ],
    ["that is controlled by a ReplicaSet", controlledBy("ReplicaSet"), "foreign"],
    ["that mirrors a file of the kubelet", { annotations: { "kubernetes.io/config.mirror": "x" } }, "overhead"],
    ["of kube-system", { namespace: "kube-system" }, "overhead"],
    ["of another system namespace", { namespace: "monitoring" }, "overhead"],
    ["of a namespace that only begins like one", { namespace: "kube-systems" }, "foreign"],
    ["of Muster's services", { namespace: "muster-system", labels: service }, "overhead"],
    ["beside Muster's services", { namespace: "muster-system" }, "foreign"],
    ["with the label of the services in another namespace", { namespace: "ns", labels: service }, "foreign"],
    ["without anything special", {}, "foreign"],
    ["whose owner is no DNS label", { labels: { [labels.ownerKind]: "job", [labels.owner]: "a..b" } }, "foreign"],
  ])("%s is grouped", (_title, metadata, group) => {
    expect(read(metadata)).toMatchObject({ group });
  });

  it("keeps of a pod without owner labels only its use of its node", () => {
    expect(read()).toEqual({
      namespace: "ns",
      name: "p",
      node: "n",
      finished: false,
      group: "foreign",
      requests: new Map([
        ["cpu", 250],
        ["memory", 2 ** 30],
      ]),
    });
  });

  it.each([
    ["while it is being deleted", { deletionTimestamp: created }, "Running", false],
    ["while its node does not answer", {}, "Unknown", false],
    ["until it has succeeded, whatever its labels", { labels: { app: "web" } }, "Succeeded", true],
    ["until it has failed, although it is not deleted yet", { deletionTimestamp: created }, "Failed", true],
  ])("that is not Muster's counts %s", (_title, metadata, phase, finished) => {
    expect(read(metadata, { phase })).toMatchObject({ group: "foreign", finished });
  });

  const own = { [labels.ownerKind]: "job", [labels.owner]: "j" };
  it.each([
    ["exclusive pods of Muster with their requests, whatever namespace they are in", "kube-system", "true"],
    ["other pods of Muster with their requests, in the namespace of the work", "ns", "false"],
  ])("has %s", (_title, namespace, exclusive) => {
    const seen = read({ labels: { ...own, [labels.exclusive]: exclusive }, namespace });
    expect(seen).toMatchObject({
      owner: { kind: "job", id: "j" },
      requests: new Map([
        ["cpu", 250],
        ["memory", 2 ** 30],
      ]),
    });
    expect(seen).not.toHaveProperty("group");
  });

  it.each([
    ["apps", "foreign"],
    ["kube-system", "overhead"],
  ])("of %s that is not exclusive is grouped as %s, whatever owner its labels name", (namespace, group) => {
    const seen = read({ labels: own, namespace });
    expect(seen).toEqual({ ...read({ namespace }), group });
  });

  describe("with the owner labels of a batch Job, in another namespace", () => {
    const id = "apps-train-0a1b2c3d4e5f";
    const named = { [labels.ownerKind]: "batch-job", [labels.owner]: id, [labels.exclusive]: "false" };
    const createdBy = (uid: string, kind = "Job", controller = true) => ({
      ownerReferences: [{ apiVersion: "batch/v1", kind, name: "train", uid, controller }],
    });
    const uid = "0a1b2c3d-4e5f-6789-abcd-ef0123456789";

    it.each(["apps", "other"])("counts for a JobSet of apps if it exists: in %s", (namespace) => {
      const owner = { kind: JOB_SET, id: buildBatchOwnerId(JOB_SET, { namespace: "apps", name: "train", uid: "u" }) };
      const named = { [labels.ownerKind]: owner.kind, [labels.owner]: owner.id, [labels.exclusive]: "false" };
      const seen = read({ labels: named, namespace, ...createdBy("1a1b2c3d-4e5f-6789-abcd-ef0123456789") });
      expect(seen).toMatchObject(namespace === "apps" ? { owner } : { group: "foreign" });
    });

    it("counts for the Job that created it", () => {
      const seen = read({ labels: named, namespace: "apps", ...createdBy(uid) });
      expect(seen).toMatchObject({ owner: { kind: "batch-job", id }, exclusive: false });
    });

    it.each([
      ["another Job created it", createdBy("1a1b2c3d-4e5f-6789-abcd-ef0123456789")],
      ["the Job only owns it", createdBy(uid, "Job", false)],
      ["another kind created it", createdBy(uid, "CronJob")],
      ["no controller created it", {}],
    ])("is foreign if %s", (_title, metadata) => {
      expect(read({ labels: named, namespace: "apps", ...metadata })).toMatchObject({ group: "foreign" });
    });
  });

  describe("with the owner labels of a job, in another namespace", () => {
    const uid = "0a1b2c3d-4e5f-6789-abcd-ef0123456789";
    const owner = { kind: "job", id: "train-0a1b2c3d4e5f" };
    const named = { [labels.ownerKind]: owner.kind, [labels.owner]: owner.id, [labels.exclusive]: "false" };
    const createdBy = (apiVersion: string, kind: string) => ({
      ownerReferences: [{ apiVersion, kind, name: "train", uid, controller: true }],
    });

    it.each([
      ["muster.dev/v1", "Job", { owner }],
      ["kubeflow.org/v1", "PyTorchJob", { owner }],
      ["batch/v1", "Job", { group: "foreign" }],
    ])("counts for the job only if it controls the pod: %s %s", (apiVersion, kind, expected) => {
      expect(read({ labels: named, namespace: "apps", ...createdBy(apiVersion, kind) })).toMatchObject(expected);
    });
  });

  describe("with the owner labels of a session in another namespace", () => {
    const owner = { kind: "session", id: buildSessionElsewhereId({ namespace: "apps", name: "bench" }) };
    const named = { [labels.ownerKind]: owner.kind, [labels.owner]: owner.id, [labels.exclusive]: "false" };

    it.each([
      ["apps", { owner }],
      ["other", { group: "foreign" }],
      ["ns", { group: "foreign" }],
    ])("counts for the session only in its namespace: in %s", (namespace, expected) => {
      expect(read({ labels: named, namespace })).toMatchObject(expected);
    });
  });

  it("shares equal requests", () => {
    expect(read({ name: "a" }).requests).toBe(read({ name: "b" }).requests);
  });

  it("of services is foreign if their namespace is unknown", () => {
    const { metadata, ...rest } = pod({ owner: service });
    const unknown = makePodReader({ systemNamespaces: [], workNamespace: "ns" });
    expect(unknown({ ...rest, metadata: { ...metadata, namespace: "muster-system" } })).toMatchObject({
      group: "foreign",
    });
  });
});

it("knows the namespace of the services from its own service account, and not from a kubeconfig file", () => {
  const kube = new KubeConfig();
  kube.loadFromOptions({
    clusters: [{ name: "c", server: "https://c" }],
    users: [{ name: "u" }],
    contexts: [{ name: "x", cluster: "c", user: "u", namespace: "muster-system" }],
    currentContext: "x",
  });
  const rulesOf = (env: Readonly<Record<string, string>>) => buildGroupRules(readConfig(env), kube);
  expect(rulesOf({ MUSTER_NAMESPACE: "work" })).toEqual({
    systemNamespaces: ["kube-system"],
    servicesNamespace: "muster-system",
    workNamespace: "work",
  });
  expect(rulesOf({ MUSTER_KUBECONFIG: "/file" }).servicesNamespace).toBeUndefined();
});

describe("a watched node", () => {
  it("has every allocatable amount in the range of the wire", () => {
    const allocatable = {
      cpu: "3920m",
      memory: "2Gi",
      "ephemeral-storage": "3Gi",
      pods: "110",
      "nvidia.com/gpu": "8",
      "example.com/x": "1E",
      "example.com/y": "-1",
    };
    expect(toWatchedNode(json({ metadata: { name: "n" }, status: { allocatable } }) as V1Node).allocatable).toEqual({
      cpu: 3920,
      memory: 2 ** 31,
      "ephemeral-storage": 3 * 2 ** 30,
      pods: 110,
      "nvidia.com/gpu": 8,
      "example.com/x": Number.MAX_SAFE_INTEGER,
      "example.com/y": 0,
    });
    expect(toWatchedNode(json({ metadata: { name: "n" } }) as V1Node).allocatable).toEqual({});
  });

  const node = (part: object): V1Node =>
    json({
      metadata: { name: "n", uid: "u", resourceVersion: "3", creationTimestamp: created, labels: { pool: "a" } },
      ...part,
    }) as V1Node;
  const ready = (status: string) => ({ conditions: [{ type: "Ready", status }] });

  it.each([
    ["is ready when the kubelet reports it", { status: ready("True") }, { ready: true, schedulable: true }],
    ["is not ready when the kubelet is silent", { status: ready("Unknown") }, { ready: false }],
    ["is not ready before the first report of the kubelet", {}, { ready: false, schedulable: true }],
    [
      "is not schedulable when cordoned",
      { spec: { unschedulable: true } },
      { schedulable: false, cordoned: true, unopened: false },
    ],
    [
      "is not schedulable, and not cordoned, before the node scaler has opened it",
      { spec: { taints: [{ key: "muster.dev/unopened", effect: "NoSchedule" }] } },
      { schedulable: false, cordoned: false, unopened: true },
    ],
    [
      "is not schedulable behind a NoSchedule taint",
      { spec: { taints: [{ key: "k", effect: "NoSchedule" }] } },
      {
        schedulable: false,
        cordoned: false,
        unopened: false,
        taints: [{ key: "k", value: "", effect: "NoSchedule" }],
      },
    ],
    [
      "is not schedulable behind a NoExecute taint",
      { spec: { taints: [{ key: "k", value: "v", effect: "NoExecute" }] } },
      { schedulable: false, taints: [{ key: "k", value: "v", effect: "NoExecute" }] },
    ],
    [
      "is schedulable behind a mere preference",
      { spec: { taints: [{ key: "k", effect: "PreferNoSchedule" }] } },
      { schedulable: true, taints: [] },
    ],
  ])("%s", (_title, part, expected) => {
    expect(toWatchedNode(node(part))).toMatchObject({ name: "n", uid: "u", labels: { pool: "a" }, ...expected });
  });
});
