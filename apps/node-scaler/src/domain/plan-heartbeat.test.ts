import { describe, expect, it } from "vitest";
import { buildNode, buildPolicy } from "../../test/build-node.ts";
import {
  buildInstance,
  buildKubeNode,
  buildMachine,
  holder,
  inCluster,
  inLedger,
  listed,
  silence,
} from "../../test/build-sightings.ts";
import type { NodePhase, ScaledNode } from "./node.ts";
import { planHeartbeat, type HeartbeatSnapshot } from "./plan-heartbeat.ts";

const MINUTE = 60_000;
const policies = new Map([["a", buildPolicy()]]);

function plan(node: ScaledNode, parts: Partial<HeartbeatSnapshot> = {}) {
  const [step, ...more] = planHeartbeat({
    nowMs: 1000,
    leadingSinceMs: 0,
    term: 1,
    nodes: [node],
    policies,
    instances: listed(buildInstance("n")),
    kubeNodes: inCluster(),
    machines: undefined,
    booting: new Set(),
    ...parts,
  });
  expect(more).toEqual([]);
  return step;
}

const node = (phase: NodePhase, status: Partial<ScaledNode["status"]> = {}) =>
  buildNode("n", { status: { phase, ...status } });
const created = (status: Partial<ScaledNode["status"]> = {}) =>
  node("Created", { kubernetesNode: undefined, ...status });
const ended = (code: string) => ({ because: "to-end", spec: { terminate: { code } } });

describe("a booting node", () => {
  it("is Available once its Kubernetes node is ready, found by its label", () => {
    const seen = buildInstance("n", { addresses: ["10.0.0.1"], zone: "z" });
    expect(plan(created(), { instances: listed(seen), kubeNodes: inCluster(buildKubeNode("n")) })).toMatchObject({
      because: "ready",
      expected: "Created",
      phase: "Available",
      spec: { zone: "z" },
      status: { kubernetesNode: "k-n", addresses: ["10.0.0.1"] },
    });
  });

  it("is found by the name that the provider lists, if the label is missing", () => {
    const kubeNode = buildKubeNode("n", { scaledNode: undefined, name: "ip-1" });
    const instances = listed(buildInstance("n", { kubernetesNode: "ip-1" }));
    expect(plan(created(), { instances, kubeNodes: inCluster(kubeNode) })).toMatchObject({
      because: "ready",
      status: { kubernetesNode: "ip-1" },
    });
  });

  it("has joined before it is ready", () => {
    const kubeNodes = inCluster(buildKubeNode("n", { ready: false }));
    expect(plan(created(), { kubeNodes })).toMatchObject({ because: "joined", status: { kubernetesNode: "k-n" } });
  });

  it("ends if it is not ready in time", () => {
    expect(plan(created(), { nowMs: 5 * MINUTE - 1 })?.because).toBe("instance-seen");
    expect(plan(created(), { nowMs: 5 * MINUTE })).toMatchObject(ended("BOOT_TIMEOUT"));
    const unknown = { byName: new Map(), known: false };
    expect(plan(created(), { nowMs: 5 * MINUTE, kubeNodes: unknown })).toMatchObject({ because: "instance-seen" });
  });

  it("has the whole time again under a new leader", () => {
    const leadingSinceMs = 4 * MINUTE;
    expect(plan(created(), { nowMs: 6 * MINUTE, leadingSinceMs })?.because).toBe("instance-seen");
    expect(plan(created(), { nowMs: 9 * MINUTE, leadingSinceMs })).toMatchObject(ended("BOOT_TIMEOUT"));
  });

  it("restarts its time if the clock that wrote its record was ahead", () => {
    const ahead = created({ phaseSinceMs: 60 * MINUTE });
    const step = plan(ahead, { nowMs: MINUTE });
    expect(step).toMatchObject({ because: "clock-went-back", status: { unhealthySinceMs: MINUTE } });
    const after = created({ phaseSinceMs: 60 * MINUTE, unhealthySinceMs: MINUTE });
    expect(plan(after, { nowMs: 5 * MINUTE })?.because).toBe("instance-seen");
    expect(plan(after, { nowMs: 6 * MINUTE })).toMatchObject(ended("BOOT_TIMEOUT"));
  });

  it("ends immediately if the provider reports that it can never become a node", () => {
    const instances = listed(buildInstance("n", { failure: "no such image" }));
    expect(plan(created(), { instances })).toMatchObject({
      spec: { terminate: { code: "BOOT_FAILED", message: "no such image" } },
    });
  });

  it.each([
    ["is unchanged while its provider is called", { booting: new Set(["n"]) }, undefined],
    ["of an earlier leader ends", { term: 2 }, "RESTARTED"],
    ["without a boot in flight ends", {}, "BOOT_FAILED"],
  ])("and is Creating %s", (_what, parts, code) => {
    const step = plan(node("Creating", { instanceId: undefined, kubernetesNode: undefined }), parts);
    expect(step?.spec?.terminate?.code).toBe(code);
  });
});

describe.each(["Available", "Cleaning"] as const)("a node that is %s", (phase) => {
  const sick = inCluster(buildKubeNode("n", { ready: false }));

  it("is marked while it is not ready", () => {
    expect(plan(node(phase), { kubeNodes: sick })).toMatchObject({
      because: "not-ready",
      status: { unhealthySinceMs: 1000 },
    });
    expect(plan(node(phase, { unhealthySinceMs: 5 }), { kubeNodes: inCluster(buildKubeNode("n")) })).toMatchObject({
      because: "ready-again",
      status: { unhealthySinceMs: undefined },
    });
  });

  it("ends if it is not ready for too long, or deleted from the cluster", () => {
    const marked = node(phase, { unhealthySinceMs: 1000 });
    expect(plan(marked, { kubeNodes: sick, nowMs: 90_999 })).toBeUndefined();
    for (const kubeNodes of [sick, inCluster()])
      expect(plan(marked, { kubeNodes, nowMs: 91_000 })).toMatchObject(ended("UNHEALTHY"));
  });

  it("is not judged while the watcher is silent, nor by observations of an earlier leader", () => {
    const marked = node(phase, { unhealthySinceMs: 1000 });
    const kubeNodes = { byName: new Map(), known: false };
    expect(plan(marked, { kubeNodes, nowMs: 60 * MINUTE })).toBeUndefined();
    expect(plan(marked, { kubeNodes: sick, nowMs: 60 * MINUTE, leadingSinceMs: 59 * MINUTE })).toBeUndefined();
  });
});

it("uses the ready one of two names under which a node has joined, unless the first may be held", () => {
  const second = buildKubeNode("n", { name: "k-second" });
  const kubeNodes = inCluster(buildKubeNode("n", { ready: false }), second);
  expect(plan(node("Available"), { kubeNodes })).toMatchObject({
    because: "joined",
    status: { kubernetesNode: "k-second" },
  });
  expect(plan(node("Cleaning"), { kubeNodes })).toMatchObject({ because: "not-ready" });
  const both = inCluster(buildKubeNode("n"), second);
  expect(plan(node("Available"), { kubeNodes: both })?.status?.kubernetesNode).toBe("k-n");
});

it.each(["Created", "Available", "Claimed", "Cleaning"] as const)(
  "ends a node that is %s when the provider reclaims it",
  (phase) => {
    const instances = listed(buildInstance("n", { lostAtMs: 31_000 }));
    expect(plan(node(phase), { instances })).toMatchObject({
      spec: {
        terminate: {
          code: "SPOT_NOTICE",
          drainUntilMs: 31_000,
          message: "the provider reclaims the instance in 30 s",
        },
      },
    });
  },
);

it("does not judge nodes that are held, that must end, or that have ended", () => {
  const terminate = { code: "IDLE", message: "", atMs: 0, drainUntilMs: 0 } as const;
  const late = { nowMs: 60 * MINUTE, instances: silence };
  for (const phase of ["Claimed", "Terminating", "Terminated"] as const)
    expect(plan(node(phase), late)).toBeUndefined();
  expect(plan(buildNode("n", { spec: { terminate }, status: { unhealthySinceMs: 1 } }), late)).toBeUndefined();
});

describe("a ready node that the ledger does not offer", () => {
  const parts = { kubeNodes: inCluster(buildKubeNode("n")) };
  const cordoned = inLedger(buildMachine("n", "CORDONED"));
  const tainted = inLedger({ ...buildMachine("n", "CORDONED"), cordoned: false });

  it.each([
    ["is tainted", tainted],
    ["is not known to it", inLedger()],
  ])("is unhealthy if it %s, and ends after the health time", (_title, machines) => {
    expect(plan(buildNode("n"), { ...parts, machines })).toMatchObject({
      because: "not-offered",
      status: { unhealthySinceMs: 1000 },
    });
    const sick = buildNode("n", { status: { unhealthySinceMs: 1000 } });
    expect(plan(sick, { ...parts, machines, nowMs: 90_999 })).toBeUndefined();
    expect(plan(sick, { ...parts, machines, nowMs: 91_000 })?.spec?.terminate?.code).toBe("UNHEALTHY");
  });

  it("is kept, and reported as cordoned, if a user has cordoned it", () => {
    const sick = buildNode("n", { status: { unhealthySinceMs: 1000 } });
    const step = plan(sick, { ...parts, machines: cordoned, nowMs: 91_000 });
    expect(step).toMatchObject({ because: "ready-again", status: { unhealthySinceMs: undefined } });
    expect(step?.status?.trouble?.message).toContain("another client has cordoned it");
  });

  it("is healthy again once it is offered or held", () => {
    const sick = buildNode("n", { status: { unhealthySinceMs: 500 } });
    for (const machines of [
      inLedger(buildMachine("n", "FREE")),
      inLedger(buildMachine("n", "OCCUPIED")),
      inLedger(buildMachine("n", "SHARED", undefined, { sharedHolders: [holder] })),
      inLedger(buildMachine("n", "FOREIGN_USE")),
      inLedger(buildMachine("n", "CORDONED", undefined, { sharedHolders: [holder] })),
      inLedger(buildMachine("n", "CORDONED", holder)),
    ])
      expect(plan(sick, { ...parts, machines })?.because).toBe("ready-again");
  });

  it("is not judged while the ledger is silent or does not list every node", () => {
    for (const machines of [undefined, { ...inLedger(), complete: false }])
      expect(plan(buildNode("n"), { ...parts, machines })?.because).not.toBe("not-offered");
  });
});
