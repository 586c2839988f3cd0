import type { V1Node, V1Pod, V1Taint, V1Toleration } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import {
  type NodeFacts,
  NOT_READY,
  planNodeLifecycle,
  buildTaintKey,
  UNREACHABLE,
  UNSCHEDULABLE,
} from "./plan-node-lifecycle.ts";

const NOW = 1_000_000;
const POLICY = { graceMs: 40_000 };
const GPU: V1Taint = { key: "gpu", value: "yes", effect: "NoExecute" };

describe("planNodeLifecycle", () => {
  it("waits for the next heartbeat of a healthy node", () => {
    expect(plan({ heardAtMs: NOW - 1 })).toEqual([{ kind: "wait", untilMs: NOW + 39_999, because: "grace" }]);
  });

  it("marks a silent node unknown, taints it, and marks its pods not ready", () => {
    const ready = pod({ conditions: [{ type: "Ready", status: "True" }] }, [{ operator: "Exists" }]);
    const steps = plan({ heardAtMs: NOW - 40_000, pods: [ready, pod({}, [{ operator: "Exists" }])] });
    expect(steps).toMatchObject([
      { kind: "mark-unknown", because: "silent" },
      {
        kind: "set-taints",
        because: "unreachable",
        taints: [
          { key: UNREACHABLE, effect: "NoSchedule" },
          { key: UNREACHABLE, effect: "NoExecute" },
        ],
      },
      { kind: "mark-pod-unready", pod: ready, because: "unreachable" },
    ]);
  });

  it("plans nothing more after that", () => {
    const taints = [
      { key: UNREACHABLE, effect: "NoSchedule" },
      { key: UNREACHABLE, effect: "NoExecute" },
    ];
    expect(plan({ node: node("Unknown", taints), heardAtMs: NOW - 50_000 })).toEqual([]);
  });

  it("taints a node that reports itself as not ready, and removes these taints, and no others, when it is ready", () => {
    expect(plan({ node: node("False") })).toContainEqual(
      expect.objectContaining({ kind: "set-taints", because: "not-ready" }),
    );
    const taints = [GPU, { key: NOT_READY, effect: "NoSchedule" }, { key: UNREACHABLE, effect: "NoExecute" }];
    expect(plan({ node: node("True", taints) })).toContainEqual({
      kind: "set-taints",
      node: "a",
      taints: [GPU],
      resourceVersion: "7",
      because: "ready",
    });
  });

  it("taints a cordoned node, removes the taint with the cordon, and keeps a foreign taint of that name", () => {
    const cordoned = (isCordoned: boolean, taints: V1Taint[]): V1Node => {
      const plain = node("True", taints);
      return { ...plain, spec: { ...plain.spec, unschedulable: isCordoned } };
    };
    const taint = { key: UNSCHEDULABLE, effect: "NoSchedule" };
    const foreign = { key: UNSCHEDULABLE, effect: "NoExecute" };
    expect(plan({ node: cordoned(true, [GPU, foreign]) })).toContainEqual({
      kind: "set-taints",
      node: "a",
      taints: [GPU, foreign, { ...taint, timeAdded: new Date(NOW) }],
      resourceVersion: "7",
      because: "cordoned",
    });
    expect(plan({ node: cordoned(true, [taint]) }).map((step) => step.kind)).toEqual(["wait"]);
    expect(plan({ node: cordoned(false, [GPU, taint]) })).toContainEqual(
      expect.objectContaining({ taints: [GPU], because: "uncordoned" }),
    );
  });

  it.each<[string, V1Toleration[], number | "evicted" | "stays"]>([
    ["without a toleration", [], "evicted"],
    ["that tolerates another value", [{ key: "gpu", value: "no" }], "evicted"],
    ["that tolerates it without a limit", [{ key: "gpu", operator: "Exists" }], "stays"],
    ["that tolerates it for a time", [{ key: "gpu", operator: "Exists", tolerationSeconds: 30 }], NOW + 20_000],
    ["whose toleration has expired", [{ key: "gpu", operator: "Exists", tolerationSeconds: 10 }], "evicted"],
    [
      "with two times, the shorter one counts",
      [
        { key: "gpu", operator: "Exists" },
        { operator: "Exists", tolerationSeconds: 10 },
      ],
      "evicted",
    ],
  ])("judges a pod %s", (_title, tolerations, expected) => {
    const facts = { node: node("True", [GPU]), taintedAtMs: new Map([[buildTaintKey(GPU), NOW - 10_000]]) };
    const steps = plan({ ...facts, pods: [pod({}, tolerations)] }).filter(
      (step) => step.kind !== "wait" || step.because !== "grace",
    );
    if (expected === "stays") expect(steps).toEqual([]);
    else if (expected === "evicted") expect(steps).toMatchObject([{ kind: "evict", taint: "gpu=yes:NoExecute" }]);
    else expect(steps).toEqual([{ kind: "wait", untilMs: expected, because: "toleration" }]);
  });

  it("ignores pods that have ended or are in deletion", () => {
    const going = pod({}, []);
    const pods = [pod({ phase: "Succeeded" }, []), { ...going, metadata: { deletionTimestamp: new Date(NOW) } }];
    expect(plan({ node: node("True", [GPU]), pods }).map((step) => step.kind)).toEqual(["wait"]);
  });
});

function plan(facts: Partial<NodeFacts>): ReturnType<typeof planNodeLifecycle> {
  const all: NodeFacts = { node: node("True"), pods: [], heardAtMs: NOW, taintedAtMs: new Map(), ...facts };
  return planNodeLifecycle(all, POLICY, NOW);
}

function node(ready: string, taints: V1Taint[] = []): V1Node {
  return {
    metadata: { name: "a", resourceVersion: "7" },
    spec: { taints },
    status: { conditions: [{ type: "Ready", status: ready }] },
  };
}

function pod(status: V1Pod["status"], tolerations: V1Toleration[]): V1Pod {
  return { metadata: { name: "p", uid: "p" }, spec: { containers: [], tolerations }, ...(status && { status }) };
}
