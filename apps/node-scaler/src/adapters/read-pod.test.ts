import type { V1Pod } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { keepPod } from "./read-pod.ts";

const UNSCHEDULABLE = {
  phase: "Pending",
  conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable" }],
};

function pod({ metadata, spec, status }: Partial<V1Pod> = {}): V1Pod {
  return {
    metadata: { name: "p", namespace: "default", uid: "u", ...metadata },
    spec: {
      containers: [{ name: "c", resources: { requests: { cpu: "500m", memory: "1Gi" } } }],
      nodeSelector: { pool: "a" },
      ...spec,
    },
    status: status ?? UNSCHEDULABLE,
  };
}

const pendingOf = (one: V1Pod) => keepPod(one, "pool").pending;

describe("a pending pod", () => {
  it("has the requests that the scheduler uses: sidecars run beside its containers, and its overhead is added", () => {
    const resources = { requests: { cpu: "500m", memory: "1Gi" } };
    const containers = [{ name: "c", resources }];
    const initContainers = [{ name: "proxy", restartPolicy: "Always", resources }];
    const overhead = { memory: "64Mi" };
    expect(
      pendingOf(pod({ spec: { containers, initContainers, overhead, nodeSelector: { pool: "a" } } })),
    ).toMatchObject({
      cpuMilli: 1000,
      memoryBytes: 2 * 2 ** 30 + 64 * 2 ** 20,
    });
  });

  it("is read with its tolerations", () => {
    const tolerations = [{ key: "gpu", operator: "Exists" }];
    expect(pendingOf(pod({ spec: { containers: [], nodeSelector: { pool: "a" }, tolerations } }))).toMatchObject({
      tolerations,
    });
    expect(pendingOf(pod())).not.toHaveProperty("tolerations");
  });

  it("has the sum of its containers' requests, or the maximum of its init containers", () => {
    const containers = [
      { name: "c", resources: { requests: { cpu: "500m", memory: "1Gi" } } },
      { name: "d", resources: { limits: { cpu: "1", "nvidia.com/gpu": "2" } } },
    ];
    const initContainers = [{ name: "i", resources: { requests: { memory: "4Gi" } } }];
    expect(
      pendingOf(
        pod({ spec: { containers, initContainers, nodeSelector: { pool: "a", "topology.kubernetes.io/zone": "z" } } }),
      ),
    ).toEqual({
      namespace: "default",
      name: "p",
      createdAtMs: 0,
      pool: "a",
      zone: "z",
      cpuMilli: 1500,
      memoryBytes: 4 * 2 ** 30,
      gpus: 2,
    });
  });

  it.each([
    ["that names no pool", pod({ spec: { containers: [], nodeSelector: {} } })],
    ["that no scheduler has tried to place", pod({ status: { phase: "Pending" } })],
    ["of Muster's own", pod({ metadata: { labels: { "muster.dev/owner": "s", "muster.dev/owner-kind": "session" } } })],
    ["that is being deleted", pod({ metadata: { deletionTimestamp: new Date(0) } })],
    [
      "of a DaemonSet",
      pod({
        metadata: {
          ownerReferences: [{ apiVersion: "apps/v1", kind: "DaemonSet", name: "d", uid: "d", controller: true }],
        },
      }),
    ],
  ])("%s is no demand", (_what, one) => {
    expect(pendingOf(one)).toBeUndefined();
  });
});

describe("a pod on a node", () => {
  const running = (parts: Partial<V1Pod> = {}) =>
    keepPod(pod({ spec: { containers: [], nodeName: "n" }, status: { phase: "Running" }, ...parts }), "pool").on;

  it("is kept with its owner", () => {
    const metadata = {
      labels: { "muster.dev/owner": "s", "muster.dev/owner-kind": "session" },
      deletionTimestamp: new Date(0),
    };
    expect(running({ metadata })).toEqual({
      node: "n",
      pod: { namespace: "default", name: "p", uid: "u", owner: { kind: "session", id: "s" }, deleting: true },
    });
    expect(running()?.pod.owner).toBeUndefined();
  });

  it("is dropped if it has ended, or belongs to its node", () => {
    expect(running({ status: { phase: "Succeeded" } })).toBeUndefined();
    expect(running({ metadata: { annotations: { "kubernetes.io/config.mirror": "x" } } })).toBeUndefined();
  });
});
