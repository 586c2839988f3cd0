import { muster } from "@muster/proto";
import { makeProtoCodec } from "@muster/store";
import { expect, it } from "vitest";
import type { NodeState } from "../domain/node-state.ts";
import type { PodState } from "../domain/pod-state.ts";
import { nodeCodec, podCodec } from "./messages.ts";

const pod: PodState = {
  owner: { kind: "session", id: "s" },
  component: "driver",
  namespace: "ns",
  pod: "p",
  uid: "u",
  resourceVersion: 2 ** 52,
  podIp: "1.2.3.4",
  node: "n",
  health: "FAILED",
  reason: "Error",
  message: "a message",
  deleted: true,
  deleting: true,
  exitCode: 0,
  observedAtMs: 1_790_000_000_000,
};

it.each(["UNKNOWN", "READY", "NOT_READY", "SUCCEEDED", "FAILED"] as const)(
  "encodes and decodes a pod that is %s",
  (health) => {
    expect(podCodec.decode(podCodec.encode({ ...pod, health }))).toEqual({ ...pod, health });
  },
);

it("distinguishes an exit with 0 from no exit", () => {
  expect(podCodec.decode(podCodec.encode(pod)).exitCode).toBe(0);
  expect(podCodec.decode(podCodec.encode({ ...pod, exitCode: undefined })).exitCode).toBeUndefined();
});

const node: NodeState = {
  name: "n",
  uid: "u",
  resourceVersion: 7,
  labels: { pool: "drivers", "muster.dev/x": "" },
  ready: true,
  schedulable: false,
  cordoned: true,
  unopened: true,
  taints: [{ key: "gpu", value: "a100", effect: "NoSchedule" }],
  allocatable: { cpu: 4000, pods: 110, "nvidia.com/gpu": 0, memory: Number.MAX_SAFE_INTEGER },
  occupants: [{ kind: "session", id: "s" }],
  overhead: { pods: 0, requests: {}, examples: [] },
  foreign: { pods: 2, requests: { cpu: 100, memory: Number.MAX_SAFE_INTEGER }, examples: ["a/b", "a/c"] },
  shared: [{ owner: { kind: "job", id: "j" }, use: { pods: 1, requests: { cpu: 1 }, examples: ["ns/p"] } }],
  occupantsVersion: 9,
  deleted: false,
  observedAtMs: 1_790_000_000_000,
};

it("encodes and decodes a node", () => {
  expect(nodeCodec.decode(nodeCodec.encode(node))).toEqual(node);
});

it("reads a node of a watcher that publishes no amounts", () => {
  const { allocatable: _allocatable, overhead: _overhead, foreign: _foreign, shared: _shared, ...older } = node;
  const bytes = makeProtoCodec(muster.watch.v1.NodeState).encode(older);
  const none = { pods: 0, requests: {}, examples: [] };
  expect(nodeCodec.decode(bytes)).toEqual({
    ...node,
    allocatable: {},
    overhead: none,
    foreign: none,
    shared: [],
  });
});
