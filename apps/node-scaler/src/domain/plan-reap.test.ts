import { describe, expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
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
import type { NodePhase, ScaledNode, TerminationCode } from "./node.ts";
import type { MachineStanding } from "./sightings.ts";
import { planStopRetry, planReap, type ReapSnapshot } from "./plan-reap.ts";

const ready = inCluster(buildKubeNode("n"));
const cordoned = inCluster(buildKubeNode("n", { cordoned: true }));
const standing = (word: MachineStanding, held?: typeof holder) => inLedger(buildMachine("n", word, held));
const pods = new Map([["k-n", [buildPod("p"), buildPod("q", { deleting: true })]]]);

function node(
  code: TerminationCode | undefined,
  phase: NodePhase = "Available",
  status: Partial<ScaledNode["status"]> = {},
) {
  const terminate = code === undefined ? undefined : { code, message: "", atMs: 0, drainUntilMs: 120_000 };
  return buildNode("n", { spec: { terminate }, status: { phase, ...status } });
}

function plan(record: ScaledNode, parts: Partial<ReapSnapshot>) {
  return planReap({
    nowMs: 1000,
    nodes: [record],
    instances: listed(buildInstance("n")),
    kubeNodes: ready,
    machines: standing("FREE"),
    pods: new Map(),
    stops: new Map(),
    booting: new Set(),
    ...parts,
  });
}

const shown = (record: ScaledNode, parts: Partial<ReapSnapshot> = {}) =>
  plan(record, parts).map((step) => `${step.kind} ${step.because}`);

describe("the end of an idle node", () => {
  it.each<[string, Partial<ReapSnapshot>, string[]]>([
    ["is cordoned first", {}, ["cordon IDLE", "wait cordon-not-seen"]],
    ["waits until the ledger has observed the cordon", { kubeNodes: cordoned }, ["wait cordon-not-seen"]],
    ["waits while the ledger is silent", { kubeNodes: cordoned, machines: undefined }, ["wait ledger-silent"]],
    [
      "waits while the ledger does not know it and its list is incomplete",
      { kubeNodes: cordoned, machines: { ...inLedger(), complete: false } },
      ["wait cordon-not-seen"],
    ],
    [
      "waits while the watcher is silent, for however long",
      { kubeNodes: { ...cordoned, known: false }, nowMs: 1e9 },
      ["wait watcher-silent"],
    ],
    [
      "waits while the ledger has observed a taint but no cordon, because the taint may disappear",
      { kubeNodes: cordoned, machines: inLedger({ ...buildMachine("n", "CORDONED"), cordoned: false }) },
      ["wait cordon-not-seen"],
    ],
    [
      "is cordoned even if it still has its startup taint",
      { kubeNodes: inCluster(buildKubeNode("n", { hasStartupTaint: true })), machines: standing("CORDONED") },
      ["cordon IDLE", "wait cordon-not-seen"],
    ],
    [
      "is drained after the cordon was observed",
      { kubeNodes: cordoned, machines: standing("CORDONED"), pods },
      ["change drain-begins", "evict draining", "wait draining"],
    ],
    [
      "ends when a fresh list shows no pods on it",
      { kubeNodes: cordoned, machines: standing("CORDONED") },
      ["look-for-pods drained", "change drained"],
    ],
    ["ends if it has not joined the cluster", { kubeNodes: inCluster() }, ["change not-in-cluster"]],
    [
      "is kept if it was granted before the cordon was observed",
      { machines: standing("HELD", holder) },
      ["uncordon held", "change taken-back"],
    ],
    [
      "is uncordoned if it was granted before the cordon was observed",
      { kubeNodes: cordoned, machines: standing("CORDONED", holder) },
      ["uncordon held", "change taken-back"],
    ],
  ])("%s", (_what, parts, steps) => {
    expect(shown(node("IDLE"), parts)).toEqual(steps);
  });

  it("has the whole time for its drain from the first eviction on", () => {
    const parts = { kubeNodes: cordoned, machines: standing("CORDONED"), pods };
    expect(plan(node("IDLE"), { ...parts, nowMs: 300_000 })[0]).toMatchObject({
      because: "drain-begins",
      spec: { terminate: { atMs: 0, drainUntilMs: 420_000 } },
      status: { drainingSinceMs: 300_000 },
    });
    const draining = node("IDLE", "Available", { drainingSinceMs: 0 });
    expect(shown(draining, { ...parts, nowMs: 119_999 })).toEqual(["evict draining", "wait draining"]);
    expect(shown(draining, { ...parts, nowMs: 120_000 })).toEqual(["change drain-deadline"]);
  });

  it("restarts its time if a clock that was ahead wrote the order", () => {
    const terminate = { code: "IDLE", message: "", atMs: 9_000_000, drainUntilMs: 9_120_000 } as const;
    expect(plan(buildNode("n", { spec: { terminate } }), {})).toMatchObject([
      { because: "clock-went-back", spec: { terminate: { atMs: 1000, drainUntilMs: 121_000 } } },
    ]);
  });

  it("is withdrawn if a part of it was granted before the cordon was observed", () => {
    const machines = (word: MachineStanding) =>
      inLedger(buildMachine("n", word, undefined, { sharedHolders: [holder] }));
    for (const word of ["SHARED", "CORDONED"] as const)
      expect(shown(node("IDLE"), { kubeNodes: cordoned, machines: machines(word) })).toEqual([
        "uncordon held",
        "change taken-back",
      ]);
  });

  it("evicts foreign pods that started before the cordon was observed", () => {
    const machines = inLedger(buildMachine("n", "FOREIGN_USE", undefined, { cordoned: true }));
    expect(shown(node("IDLE"), { kubeNodes: cordoned, machines, pods })).toEqual([
      "change drain-begins",
      "evict draining",
      "wait draining",
    ]);
  });

  it("takes nothing from a holder, however long the deadline has passed", () => {
    for (const code of ["IDLE", "RETURNED", "POOL_REMOVED"] as const)
      for (const word of ["HELD", "CORDONED", "NOT_READY"] as const)
        expect(plan(node(code), { kubeNodes: cordoned, machines: standing(word, holder), nowMs: 1e9 })).toContainEqual(
          expect.objectContaining({ because: "taken-back", spec: { terminate: undefined } }),
        );
  });
});

describe("the end of a lost node", () => {
  it("needs no drain if its machine is gone, unless its provider lists it again or it is ready again", () => {
    const dead = inCluster(buildKubeNode("n", { ready: false }));
    const gone = { instances: listed(), kubeNodes: dead, pods, machines: standing("HELD", holder) };
    const vanished = node("VANISHED", "Claimed");
    expect(shown(vanished, gone)).toEqual(["cordon VANISHED", "change instance-gone"]);
    expect(shown(vanished, { ...gone, instances: listed(buildInstance("n")) })).not.toContain("change instance-gone");
    expect(shown(vanished, { ...gone, instances: silence })).not.toContain("change instance-gone");
    expect(shown(vanished, { ...gone, kubeNodes: ready })).not.toContain("change instance-gone");
  });

  it("continues although the node is held, once the ledger grants it to no other owner", () => {
    const sick = inCluster(buildKubeNode("n", { ready: false, cordoned: true }));
    for (const word of ["NOT_READY", "CORDONED"] as const) {
      const machines = inLedger({ ...buildMachine("n", word, holder), cordoned: true });
      expect(shown(node("UNHEALTHY", "Claimed"), { kubeNodes: sick, machines })).toEqual([
        "look-for-pods drained",
        "change drained",
      ]);
    }
  });

  it("drains the node from its cordon on, even while the watcher and the ledger are silent", () => {
    const blind = { kubeNodes: { ...cordoned, known: false }, machines: undefined, pods };
    expect(shown(node("REQUESTED", "Claimed"), blind)).toEqual(["evict draining", "wait watcher-silent"]);
    expect(shown(node("REQUESTED", "Claimed"), { ...blind, kubeNodes: cordoned })).toEqual([
      "evict draining",
      "wait ledger-silent",
    ]);
    expect(shown(node("REQUESTED", "Claimed"), { pods })).toEqual([
      "cordon REQUESTED",
      "evict draining",
      "wait cordon-not-seen",
    ]);
    expect(shown(node("IDLE"), blind)).toEqual(["wait watcher-silent"]);
  });

  it("completes at its deadline, even while the watcher and the ledger are silent", () => {
    const blind = { kubeNodes: { ...ready, known: false }, machines: undefined };
    expect(shown(node("SPOT_NOTICE", "Claimed"), blind)).toEqual(["cordon SPOT_NOTICE", "wait watcher-silent"]);
    expect(shown(node("SPOT_NOTICE", "Claimed"), { ...blind, nowMs: 120_000 })).toEqual([
      "cordon SPOT_NOTICE",
      "change drain-deadline",
    ]);
  });

  it("waits for the pending answer of its provider", () => {
    const creating = node("REQUESTED", "Creating", { instanceId: undefined, kubernetesNode: undefined });
    expect(shown(creating, { kubeNodes: inCluster(), booting: new Set(["n"]) })).toEqual(["wait boot-under-way"]);
    expect(shown(creating, { kubeNodes: inCluster() })).toEqual(["change not-in-cluster"]);
  });
});

describe("a Terminating node", () => {
  const ending = node("IDLE", "Terminating");
  const stops = new Map([["n", { attempts: 1, nextAtMs: 5000, accepted: true }]]);

  const apart = { kubeNodes: inCluster() };

  it("is stopped, and again with pauses while it is listed", () => {
    expect(shown(ending, apart)).toEqual(["stop terminating"]);
    expect(shown(ending, { ...apart, stops })).toEqual(["wait stopping"]);
    expect(shown(ending, { ...apart, stops, nowMs: 5000 })).toEqual(["stop still-listed"]);
  });

  it("is ordered to stop at least once, whether it is listed or not", () => {
    const gone = { ...apart, instances: listed() };
    expect(plan(ending, gone)).toEqual([
      { kind: "stop", node: "n", provider: "cloud", instanceId: "i-n", because: "not-listed" },
    ]);
    const refused = new Map([["n", { attempts: 1, nextAtMs: 5000, accepted: false }]]);
    expect(shown(ending, { ...gone, stops: refused })).toEqual(["wait stopping"]);
    expect(shown(ending, { ...gone, stops: refused, nowMs: 5000 })).toEqual(["stop not-listed"]);
    expect(shown(ending, { ...gone, stops })).toEqual(["change gone"]);
  });

  it("does not count as gone if its provider is no longer configured", () => {
    const askedAtMs = new Map([["cloud", Infinity]]);
    const unknown = { all: [], silent: new Set(["cloud"]), askedAtMs };
    expect(shown(ending, { ...apart, instances: unknown, stops })).toEqual(["wait provider-silent"]);
    const elsewhere = { all: [], silent: new Set(["another"]), askedAtMs };
    expect(shown(ending, { ...apart, instances: elsewhere, stops })).toEqual(["change gone"]);
  });

  it("does not count as gone by a list that was requested before its end", () => {
    const late = node("IDLE", "Terminating", { phaseSinceMs: 500 });
    const asked = (atMs: number) => ({ ...listed(), askedAtMs: new Map([["cloud", atMs]]) });
    expect(shown(late, { ...apart, instances: asked(499), stops })).toEqual(["wait provider-silent"]);
    expect(shown(late, { ...apart, instances: asked(501), stops })).toEqual(["change gone"]);
    // A clock that was ahead wrote the record.
    const ahead = node("IDLE", "Terminating", { phaseSinceMs: 9000 });
    expect(shown(ahead, { ...apart, instances: asked(501), stops })).toEqual(["change gone"]);
  });

  it("that joins late is cordoned, and kept for an owner that was granted it meanwhile", () => {
    expect(shown(ending)).toEqual(["cordon IDLE", "wait cordon-not-seen"]);
    const held = { kubeNodes: cordoned, machines: standing("CORDONED", holder) };
    expect(shown(ending, { ...held, nowMs: 999_999 })).toEqual(["wait held"]);
    expect(shown(ending, { kubeNodes: cordoned })).toEqual(["stop terminating"]);
    expect(shown(ending, { nowMs: 120_000 })).toEqual(["stop terminating"]);
    expect(shown(node("SPOT_NOTICE", "Terminating"), held)).toEqual(["stop terminating"]);
  });

  it("is stopped under every id that the provider lists for it", () => {
    const twice = listed(buildInstance("n"), buildInstance("n", { instanceId: "i-2" }));
    expect(plan(ending, { ...apart, instances: twice })).toMatchObject([{ instanceId: "i-n" }, { instanceId: "i-2" }]);
  });

  it("ends with its Kubernetes nodes once it is no longer listed, and not while a provider is silent", () => {
    const kubeNodes = inCluster(buildKubeNode("n"), buildKubeNode("n", { name: "k-second" }));
    expect(shown(ending, { instances: silence, kubeNodes, stops })).toEqual(["wait provider-silent"]);
    expect(plan(ending, { instances: listed(), kubeNodes, stops })).toMatchObject([
      { kind: "delete-kube-node", kubeNode: "k-n" },
      { kind: "delete-kube-node", kubeNode: "k-second" },
      { kind: "change", phase: "Terminated" },
    ]);
  });
});

it("keeps the record of an ended node for a while, and no longer if the clock was set back", () => {
  const ended = node("IDLE", "Terminated", { phaseSinceMs: 1000 });
  expect(shown(ended, { nowMs: 30_999 })).toEqual(["wait kept-to-be-seen"]);
  expect(shown(ended, { nowMs: 31_000 })).toEqual(["purge gone"]);
  expect(shown(ended, { nowMs: 0 })).toEqual(["purge gone"]);
});

it("does nothing to nodes without an order to end", () => {
  for (const phase of ["Creating", "Created", "Available", "Claimed", "Cleaning"] as const)
    expect(plan(node(undefined, phase), {})).toEqual([]);
});

it("retries a stop after pauses that double up to a minute, or as long as the provider requests", () => {
  const accepted = { accepted: true, retryAfterMs: 0 };
  let tried = planStopRetry(undefined, accepted, 0);
  const pauses = [tried.nextAtMs];
  for (let again = 0; again < 5; again += 1) pauses.push((tried = planStopRetry(tried, accepted, 0)).nextAtMs);
  expect(pauses).toEqual([5000, 10_000, 20_000, 40_000, 60_000, 60_000]);
  expect(planStopRetry(undefined, { accepted: false, retryAfterMs: 90_000 }, 0).nextAtMs).toBe(90_000);
  expect(planStopRetry(tried, { accepted: false, retryAfterMs: 0 }, 0).accepted).toBe(true);
});
