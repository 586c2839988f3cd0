import { describe, expect, it } from "vitest";
import { buildNode, buildPolicy } from "../../test/build-node.ts";
import {
  buildInstance,
  buildKubeNode,
  buildMachine,
  buildPod,
  holder,
  inCluster,
  inLedger,
  listed,
  silence,
} from "../../test/build-sightings.ts";
import { planScan, type ScanSnapshot } from "./plan-scan.ts";

const base: ScanSnapshot = {
  nowMs: 1000,
  nodes: [],
  newcomers: new Set(),
  policies: new Map([["a", buildPolicy()]]),
  instances: listed(),
  kubeNodes: inCluster(),
  machines: inLedger(),
  pods: new Map(),
  suspects: new Set(),
  stops: new Map(),
};

/** Scans an unchanged world twice and returns the steps of the second scan; the first scan has none. */
function twice(parts: Partial<ScanSnapshot>) {
  const first = planScan({ ...base, ...parts });
  expect(first.steps).toEqual([]);
  return planScan({ ...base, ...parts, suspects: first.suspects }).steps;
}

describe("an instance", () => {
  it("without a record is stopped in the second scan", () => {
    expect(twice({ instances: listed(buildInstance("x")) })).toMatchObject([
      { kind: "stop-orphan", instanceId: "i-x", because: "no-record" },
    ]);
  });

  it("that is a second one of its record is stopped", () => {
    const instances = listed(buildInstance("n"), buildInstance("n", { instanceId: "i-2" }));
    expect(twice({ nodes: [buildNode("n")], instances })).toMatchObject([
      { instanceId: "i-2", because: "another-instance" },
    ]);
  });

  it("that reappears after the end of its record is stopped", () => {
    const nodes = [buildNode("n", { status: { phase: "Terminated" } })];
    expect(twice({ nodes, instances: listed(buildInstance("n")) })).toMatchObject([
      { kind: "stop-orphan", instanceId: "i-n" },
    ]);
  });

  it("is not stopped again during the pause after the latest stop", () => {
    const instances = listed(buildInstance("x"));
    const { provider, instanceId } = buildInstance("x");
    const stops = new Map([[`${provider} ${instanceId}`, { attempts: 1, nextAtMs: 1001, accepted: true }]]);
    expect(twice({ instances, stops })).toEqual([{ kind: "wait", instanceId, because: "stopping" }]);
    expect(twice({ instances, stops, nowMs: 1001 })).toMatchObject([{ kind: "stop-orphan", instanceId }]);
  });

  it.each<[string, Partial<ScanSnapshot>]>([
    ["of a record", { nodes: [buildNode("n")] }],
    [
      "of a record whose provider has not answered",
      { nodes: [buildNode("n", { status: { phase: "Creating", instanceId: undefined } })] },
    ],
    [
      "of a record that is ending",
      { nodes: [buildNode("n", { status: { phase: "Terminating", instanceId: "i-other" } })] },
    ],
    ["of a record that was created meanwhile", { newcomers: new Set(["n"]) }],
    ["that is stopping", { instances: listed(buildInstance("n", { state: "stopping" })) }],
  ])("%s is not stopped", (_what, parts) => {
    expect(twice({ instances: listed(buildInstance("n")), ...parts })).toEqual([]);
  });

  it("is not stopped while its machine is held", () => {
    const parts = {
      instances: listed(buildInstance("x")),
      kubeNodes: inCluster(buildKubeNode("x", { cordoned: true })),
    };
    for (const machine of [
      buildMachine("x", "CORDONED", holder),
      buildMachine("x", "CORDONED", undefined, { sharedHolders: [holder] }),
    ])
      expect(twice({ ...parts, machines: inLedger(machine) })).toMatchObject([
        { kind: "wait", because: "orphan-held" },
      ]);
  });

  it.each([
    ["waits for a pod of an owner that is otherwise unknown here", holder.owner, "wait"],
    ["does not wait for a pod without an owner", undefined, "stop-orphan"],
  ])("%s", (_what, owner, wanted) => {
    const seen = {
      instances: listed(buildInstance("x")),
      kubeNodes: inCluster(buildKubeNode("x", { cordoned: true })),
    };
    const machines = inLedger(buildMachine("x", "CORDONED"));
    const pods = new Map([["k-x", [buildPod("p", { owner })]]]);
    expect(twice({ ...seen, machines, pods }).map((step) => step.kind)).toEqual([wanted]);
  });
});

describe("an orphaned instance that has joined", () => {
  const open = { instances: listed(buildInstance("x")), kubeNodes: inCluster(buildKubeNode("x")) };
  const closed = { ...open, kubeNodes: inCluster(buildKubeNode("x", { cordoned: true })) };
  const orphan = (parts: Partial<ScanSnapshot>) =>
    twice(parts).flatMap((step) =>
      step.kind === "wait" || step.kind === "stop-orphan" ? [`${step.kind} ${step.because}`] : [],
    );

  it("is cordoned first, and stopped after the ledger has observed that", () => {
    const machines = inLedger(buildMachine("x", "FREE"));
    expect(twice({ ...open, machines })).toContainEqual({
      kind: "cordon",
      node: "x",
      kubeNode: "k-x",
      because: "no-record",
    });
    expect(orphan({ ...open, machines })).toEqual(["wait cordon-not-seen"]);
    expect(orphan({ ...closed, machines })).toEqual(["wait cordon-not-seen"]);
    expect(orphan({ ...closed, machines: inLedger(buildMachine("x", "CORDONED")) })).toEqual(["stop-orphan no-record"]);
  });

  it("is stopped immediately if its startup taint was never removed", () => {
    const kubeNodes = inCluster(buildKubeNode("x", { hasStartupTaint: true }));
    const machines = inLedger({ ...buildMachine("x", "CORDONED"), cordoned: false });
    expect(orphan({ ...open, kubeNodes, machines })).toEqual(["stop-orphan no-record"]);
  });

  it("is not stopped while the ledger or the watcher is silent, or the ledger's list is partial", () => {
    expect(orphan({ ...closed, machines: undefined })).toEqual(["wait ledger-silent"]);
    expect(orphan({ instances: open.instances, machines: undefined })).toEqual(["wait ledger-silent"]);
    expect(orphan({ ...closed, kubeNodes: { ...closed.kubeNodes, known: false } })).toEqual(["wait watcher-silent"]);
    expect(orphan({ ...closed, machines: { ...inLedger(), complete: false } })).toEqual(["wait cordon-not-seen"]);
  });

  it("is not stopped as a second one of its record while a machine that may be its own is held", () => {
    const nodes = [buildNode("n", { status: { phase: "Claimed" } })];
    const instances = listed(buildInstance("n"), buildInstance("n", { instanceId: "i-2" }));
    const parts = { nodes, instances, kubeNodes: inCluster(buildKubeNode("n")) };
    expect(twice({ ...parts, machines: inLedger(buildMachine("n", "HELD", holder)) })).toEqual([
      { kind: "wait", instanceId: "i-2", because: "orphan-held" },
    ]);
    expect(twice({ ...parts, machines: inLedger(buildMachine("n", "FREE")) })).toMatchObject([
      { kind: "stop-orphan", instanceId: "i-2", because: "another-instance" },
    ]);
  });
});

describe("a record", () => {
  it.each(["Created", "Available", "Claimed", "Cleaning"] as const)(
    "that is %s ends when its instance is missing twice",
    (phase) => {
      expect(twice({ nodes: [buildNode("n", { status: { phase } })] })).toMatchObject([
        { kind: "change", expected: phase, spec: { terminate: { code: "VANISHED" } } },
      ]);
    },
  );

  it("does not end because of its provider's list while its machine is, or may be, ready", () => {
    const nodes = [buildNode("n", { status: { phase: "Claimed" } })];
    const dead = inCluster(buildKubeNode("n", { ready: false }));
    expect(twice({ nodes, kubeNodes: inCluster(buildKubeNode("n")) })).toEqual([]);
    expect(twice({ nodes, kubeNodes: { ...dead, known: false } })).toEqual([]);
    expect(twice({ nodes, kubeNodes: dead })).toMatchObject([{ spec: { terminate: { code: "VANISHED" } } }]);
  });

  it.each(["Creating", "Terminating", "Terminated"] as const)("that is %s needs no instance", (phase) => {
    expect(twice({ nodes: [buildNode("n", { status: { phase } })] })).toEqual([]);
  });

  it("ends if another instance has its name and its own is missing", () => {
    const instances = listed(buildInstance("n", { instanceId: "i-2" }));
    expect(twice({ nodes: [buildNode("n")], instances }).map((step) => step.kind)).toEqual(["stop-orphan", "change"]);
  });

  it("is neither ended nor cleared by a provider that does not answer", () => {
    const nodes = [buildNode("n")];
    expect(twice({ nodes, instances: silence })).toEqual([]);
    const first = planScan({ ...base, nodes });
    const silent = planScan({ ...base, nodes, instances: silence, suspects: first.suspects });
    expect(silent.steps).toEqual([]);
    expect(planScan({ ...base, nodes, suspects: silent.suspects }).steps).toHaveLength(1);
  });

  it("is not judged by lists that were requested before it had its instance", () => {
    const nodes = [buildNode("n", { status: { phase: "Created", phaseSinceMs: 500 } })];
    const asked = (atMs: number) => ({ ...listed(), askedAtMs: new Map([["cloud", atMs]]) });
    expect(twice({ nowMs: 1000, nodes, instances: asked(499) })).toEqual([]);
    expect(twice({ nowMs: 1000, nodes, instances: asked(501) })).toHaveLength(1);
  });

  it("whose instance reappears after a missing list starts over", () => {
    const nodes = [buildNode("n")];
    const first = planScan({ ...base, nodes });
    const back = planScan({ ...base, nodes, instances: listed(buildInstance("n")), suspects: first.suspects });
    expect(planScan({ ...base, nodes, suspects: back.suspects }).steps).toEqual([]);
  });
});

describe("a Kubernetes node", () => {
  it("with the label of no record is cordoned while it is ready, and deleted after its instance is gone", () => {
    expect(twice({ kubeNodes: inCluster(buildKubeNode("x")) })).toMatchObject([
      { kind: "cordon", kubeNode: "k-x", because: "no-record" },
    ]);
    const dead = inCluster(buildKubeNode("x", { ready: false }));
    expect(twice({ kubeNodes: dead })).toMatchObject([{ kind: "delete-kube-node", kubeNode: "k-x" }]);
    const steps = twice({ kubeNodes: dead, instances: listed(buildInstance("x")) });
    expect(steps.map((step) => step.kind)).toEqual(["cordon", "wait"]);
  });

  it("that is the second of its record is cordoned, or deleted if it is not ready", () => {
    const parts = { nodes: [buildNode("n")], instances: listed(buildInstance("n")) };
    const second = (ready: boolean) => inCluster(buildKubeNode("n"), buildKubeNode("n", { name: "k-second", ready }));
    expect(twice({ ...parts, kubeNodes: second(true) })).toMatchObject([
      { kind: "cordon", kubeNode: "k-second", because: "second-name" },
    ]);
    expect(twice({ ...parts, kubeNodes: second(false) })).toMatchObject([
      { kind: "delete-kube-node", kubeNode: "k-second" },
    ]);
  });

  it("stays if it may still become its record's, or a provider is silent", () => {
    const kubeNodes = inCluster(buildKubeNode("n", { ready: false }));
    const nodes = [buildNode("n", { status: { phase: "Created", kubernetesNode: undefined } })];
    expect(twice({ nodes, kubeNodes, instances: listed(buildInstance("n")) })).toEqual([]);
    expect(twice({ kubeNodes: { ...kubeNodes, known: false } })).toEqual([]);
    expect(twice({ kubeNodes, instances: silence })).toEqual([]);
  });
});
