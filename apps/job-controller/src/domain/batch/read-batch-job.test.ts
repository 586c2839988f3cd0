import { NO_DEFAULTS } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { DEFAULTS } from "../../../test/manifests.ts";
import type { KindDefaults } from "../kind.ts";
import { toBatchJob, readBatchJob, readJobSet, readQueuedPod, type BatchJobObject } from "./read-batch-job.ts";
import { NO_PROGRESS } from "./start-progress.ts";

type Spec = NonNullable<BatchJobObject["spec"]>;

function written(
  more: {
    spec?: object;
    status?: object;
    pod?: object;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  } = {},
  defaults: KindDefaults = DEFAULTS,
) {
  const { spec, status, pod, labels = { "muster.dev/queue": "team-a" }, annotations = {} } = more;
  const containers = [{ name: "main", image: "i", resources: { requests: { cpu: "100m" } } }];
  const template = { spec: { restartPolicy: "Never", containers, nodeSelector: { pool: "workers" }, ...pod } };
  const metadata = { namespace: "team-a", name: "train", uid: "u", labels, annotations };
  return readBatchJob({ metadata, spec: { template, ...spec } as Spec, ...(status && { status }) }, defaults);
}
const condition = (type: string) => ({ conditions: [{ type, status: "True" }] });

describe("the pods that a batch Job runs concurrently", () => {
  it.each<[string, object, object, number]>([
    ["are one by default", {}, {}, 1],
    ["are its parallelism without completions", { parallelism: 4 }, {}, 4],
    ["are those that run once one of a work queue has succeeded", { parallelism: 4 }, { succeeded: 1, active: 2 }, 2],
    ["are its parallelism while more are to complete", { parallelism: 2, completions: 5 }, { succeeded: 1 }, 2],
    ["are the rest of its completions", { parallelism: 4, completions: 5 }, { succeeded: 3 }, 2],
    ["are without failed indexes", { parallelism: 4, completions: 5 }, { succeeded: 1, failedIndexes: "0,2-3" }, 1],
    ["are none after the last completion", { parallelism: 4, completions: 5 }, { succeeded: 5 }, 0],
    ["are none with a parallelism of 0", { parallelism: 0 }, {}, 0],
  ])("%s", (_title, spec, status, pods) => {
    expect(toBatchJob(written({ spec, status }), [], NO_DEFAULTS).sets).toMatchObject([
      { name: "pod", first: 0, pods },
    ]);
  });
});

it.each([
  ["a batch Job without one", written(), 40_000],
  ["a batch Job", written({ pod: { terminationGracePeriodSeconds: 120 } }), 130_000],
])("%s states the grace of its template and a little more", (_title, row, graceMs) => {
  expect(row.graceMs).toBe(graceMs);
});

it("reads the progress of its start from its annotation", () => {
  const annotations = { "muster.dev/progress": '{"readyTimeouts":2}' };
  expect(written({ annotations }).start).toEqual({ ...NO_PROGRESS, readyTimeouts: 2 });
  expect(written().start).toEqual(NO_PROGRESS);
});

describe("the need of a batch Job", () => {
  const needOf = (more: Parameters<typeof written>[0]) => written(more).sets[0]?.needWith(NO_DEFAULTS);
  it("is a part of a machine if the template has requests, otherwise a whole machine", () => {
    expect(needOf({})).toEqual({ pool: "workers", shared: { cpu: 100 } });
    expect(needOf({ pod: { containers: [{ name: "main", image: "i" }] } })).toEqual({ pool: "workers" });
    expect(needOf({ annotations: { "muster.dev/sharing": "exclusive" } })).toMatchObject({
      selection: { minimum: { cpu: 100 } },
    });
  });

  it("has the defaults of its namespace", () => {
    const defaults = { ...NO_DEFAULTS, requests: { memory: "1Gi" } };
    expect(written().sets[0]?.needWith(defaults)).toEqual({ pool: "workers", shared: { cpu: 100, memory: 2 ** 30 } });
  });

  it("has the tolerations, the node selector and the node affinity of the template", () => {
    const tolerations = [{ key: "gpu", operator: "Exists" }];
    const pod = { tolerations, nodeSelector: { pool: "workers", zone: "a" } };
    expect(needOf({ pod })).toMatchObject({
      selection: { terms: [{ matchExpressions: [{ key: "zone", values: ["a"] }] }], tolerations: [{ key: "gpu" }] },
    });
  });

  it("names unreadable fields", () => {
    expect(needOf({ pod: { nodeName: "n1" } })).toMatchObject({ problems: [{ field: "spec.template.spec.nodeName" }] });
    const poolless = written({ pod: { nodeSelector: {} } }, { ...DEFAULTS, pool: undefined });
    expect(poolless.sets[0]?.needWith(NO_DEFAULTS)).toMatchObject({ problems: [{ field: "spec" }] });
  });
});

it("reads the state of a batch Job, and no template without a queue", () => {
  expect(written({ spec: { suspend: true }, status: condition("Suspended") })).toMatchObject({
    suspended: true,
    stopped: true,
  });
  expect(written({ spec: { suspend: true }, status: { ...condition("Suspended"), active: 1 } }).stopped).toBe(false);
  expect(written({ status: condition("Complete") }).finished).toBe(true);
  expect(written({ status: condition("Failed") }).finished).toBe(true);
  expect(written({ pod: { schedulingGates: [{ name: "muster.dev/queue" }] } }).gated).toBe(true);
  expect(written({ labels: {}, pod: { containers: "none" } })).toMatchObject({ queue: "", gated: false });
});

describe("a JobSet", () => {
  const template = (cpu: string, pod: object = {}) => ({
    spec: {
      nodeSelector: { pool: "workers" },
      containers: [{ name: "main", image: "i", resources: { requests: { cpu } } }],
      ...pod,
    },
  });
  const jobSet = (more: { spec?: object; status?: object; workers?: object } = {}) => {
    const { spec, status = {}, workers = {} } = more;
    const replicatedJobs = [
      { name: "leader", template: { spec: { template: template("1", { priorityClassName: "high" }) } } },
      {
        name: "worker",
        replicas: 3,
        template: { spec: { parallelism: 2, completions: 2, template: template("2", workers) } },
      },
    ];
    const metadata = { namespace: "team-a", name: "train", uid: "s", labels: { "muster.dev/queue": "team-a" } };
    return readJobSet({ metadata, spec: { replicatedJobs, ...spec } as object, status }, DEFAULTS);
  };
  const child = (set: string, more: { spec?: object; status?: object; restarts?: number } = {}) => {
    const labels = {
      "muster.dev/queue": "team-a",
      "jobset.sigs.k8s.io/replicatedjob-name": set,
      "jobset.sigs.k8s.io/restart-attempt": `${more.restarts ?? 0}`,
    };
    const owner = { apiVersion: "jobset.x-k8s.io/v1alpha2", kind: "JobSet", name: "train", uid: "s", controller: true };
    const metadata = { namespace: "team-a", name: `train-${set}-0`, uid: set, labels, ownerReferences: [owner] };
    const spec = { parallelism: 2, completions: 2, ...more.spec } as Spec;
    return readBatchJob({ metadata, spec, ...(more.status && { status: more.status }) }, DEFAULTS);
  };
  const podsOf = (row: ReturnType<typeof jobSet>, jobs: readonly ReturnType<typeof child>[]) =>
    toBatchJob(row, jobs, NO_DEFAULTS).sets.map(({ name, first, pods }) => `${name} ${first} ${pods}`);

  it("has a set of pods for each replicated job, with its own need", () => {
    expect(toBatchJob(jobSet(), [], NO_DEFAULTS)).toMatchObject({
      kind: "job-set",
      gated: false,
      sets: [
        { name: "leader", first: 0, pods: 1, need: { pool: "workers", shared: { cpu: 1000 } } },
        { name: "worker", first: 1, pods: 6, need: { pool: "workers", shared: { cpu: 2000 } } },
      ],
    });
    expect(jobSet().priorityClasses).toEqual(["high", ""]);
    expect(jobSet({ workers: { terminationGracePeriodSeconds: 60 } }).graceMs).toBe(70_000);
  });

  it.each<[string, readonly ReturnType<typeof child>[], readonly string[], object?]>([
    ["none for a complete Job", [child("worker", { status: condition("Complete") })], ["leader 0 1", "worker 1 4"]],
    ["what is left of a Job", [child("worker", { status: { succeeded: 1 } })], ["leader 0 1", "worker 1 5"]],
    [
      "all for a Job of an earlier attempt",
      [child("worker", { status: condition("Complete"), restarts: 0 })],
      ["leader 0 1", "worker 1 6"],
      { restarts: 1 },
    ],
  ])("needs %s, and numbers its places as before", (_title, jobs, expected, status = {}) => {
    expect(podsOf(jobSet({ status }), jobs)).toEqual(expected);
  });

  it("counts as stopped once its Jobs are suspended or finished", () => {
    const row = jobSet({ spec: { suspend: true }, status: condition("Suspended") });
    expect(toBatchJob(row, [child("leader")], NO_DEFAULTS).stopped).toBe(false);
    const idle = [child("leader", { spec: { suspend: true } }), child("worker", { status: condition("Complete") })];
    expect(toBatchJob(row, idle, NO_DEFAULTS).stopped).toBe(true);
    expect(toBatchJob(jobSet({ spec: { suspend: true } }), idle, NO_DEFAULTS).stopped).toBe(false);
    expect(jobSet({ status: condition("Completed") }).finished).toBe(true);
  });

  it("owns its Jobs, which are no separate work and whose templates are not read", () => {
    expect(child("worker", { restarts: 2 })).toMatchObject({
      parent: { namespace: "team-a", name: "train", uid: "s", set: "worker", restarts: 2 },
    });
    expect(written().parent).toBeUndefined();
  });

  it("names the unreadable field of the template", () => {
    const field = "spec.replicatedJobs[1].template.spec.template.spec.nodeName";
    expect(toBatchJob(jobSet({ workers: { nodeName: "n1" } }), [], NO_DEFAULTS).sets[1]).toMatchObject({
      need: { problems: [{ field }] },
    });
  });
});

describe("a pod with a queue label", () => {
  const queuedPod = (spec: object, metadata: object = {}, isBound = false) => {
    const containers = [{ name: "main", image: "i" }];
    const labels = { "muster.dev/queue": "team-a" };
    return readQueuedPod(
      {
        metadata: { namespace: "team-a", name: "single", uid: "p", labels, ...metadata },
        spec: { containers, nodeSelector: { pool: "workers" }, ...spec } as object,
      },
      DEFAULTS,
      isBound,
    );
  };
  const gates = { schedulingGates: [{ name: "muster.dev/queue" }] };
  const controlledBy = (apiVersion: string, kind: string) => ({
    ownerReferences: [{ apiVersion, kind, name: "x", uid: "x", controller: true }],
  });

  it("waits for one machine while it has the gate", () => {
    const row = queuedPod(gates);
    expect(row).toMatchObject({ kind: "queued-pod", queue: "team-a", suspended: true, finished: false });
    const sets = row && toBatchJob(row, [], NO_DEFAULTS).sets;
    expect(sets).toEqual([{ name: "pod", first: 0, pods: 1, need: { pool: "workers" } }]);
  });

  it.each([
    ["is ignored without the gate", queuedPod({})],
    ["is ignored with other gates", queuedPod({ schedulingGates: [{ name: "a.example/one" }] })],
    ["is ignored if a Job controls it", queuedPod(gates, controlledBy("batch/v1", "Job"))],
  ])("%s", (_title, row) => {
    expect(row).toBeUndefined();
  });

  it("is recognised after it was bound, and waits if another kind controls it", () => {
    expect(queuedPod({}, {}, true)).toMatchObject({ suspended: false });
    expect(queuedPod(gates, controlledBy("apps/v1", "ReplicaSet"))).toMatchObject({ suspended: true });
  });
});
