import { NO_DEFAULTS } from "@muster/resources";
import { describe, expect, it } from "vitest";
import { DEFAULTS } from "../../../test/manifests.ts";
import type { KindDefaults } from "../kind.ts";
import { batchJobOf, readBatchJob, type BatchJobObject } from "./read-batch-job.ts";

type Spec = NonNullable<BatchJobObject["spec"]>;

function written(
  more: { spec?: object; status?: object; pod?: object; labels?: Record<string, string>; annotations?: object } = {},
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
    expect(batchJobOf(written({ spec, status }), [], NO_DEFAULTS).sets).toMatchObject([
      { name: "pod", first: 0, pods },
    ]);
  });
});

describe("the need of a batch Job", () => {
  const needOf = (more: Parameters<typeof written>[0]) => written(more).sets[0]?.needWith(NO_DEFAULTS);
  it("is a part of a machine where the template has requests, else a whole machine", () => {
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

  it("names what cannot be read", () => {
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
