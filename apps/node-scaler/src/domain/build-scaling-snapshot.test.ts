import { describe, expect, it } from "vitest";
import { buildNode, buildPolicy } from "../../test/build-node.ts";
import { buildKubeNode, buildMachine, buildPod, holder, inCluster, inLedger } from "../../test/build-sightings.ts";
import {
  buildComputedNodes,
  buildFreeMachines,
  listMachinesInParts,
  countUnscaledZones,
  isInUse,
  type NodeUse,
} from "./build-scaling-snapshot.ts";
import type { ScaledNode } from "./node.ts";
import type { Machine } from "./sightings.ts";

const policies = new Map([["a", buildPolicy()]]);
const node = buildNode("n");

const seen = (machine: Machine, pods: NodeUse["pods"] = new Map()): NodeUse => ({
  machines: inLedger(machine),
  pods,
  kubeNodes: inCluster(buildKubeNode("n", { labels: { disk: "ssd" } })),
});

describe("a node", () => {
  it.each<[string, Machine, boolean]>([
    ["is not in use while it is free", buildMachine("n", "FREE"), false],
    ["is in use while it is held", buildMachine("n", "HELD", holder), true],
    ["is in use while a part of it is held", buildMachine("n", "SHARED", undefined, { sharedHolders: [holder] }), true],
    ["is in use while foreign pods use it", buildMachine("n", "FOREIGN_USE"), true],
    [
      "is in use while it is not ready and a part of it is held",
      buildMachine("n", "NOT_READY", undefined, { sharedHolders: [holder] }),
      true,
    ],
    ["is not in use with an unknown standing", buildMachine("n", "UNKNOWN"), false],
  ])("%s", (_what, machine, isUsed) => {
    expect(isInUse(node, seen(machine))).toBe(isUsed);
    const [computed] = buildComputedNodes([node], seen(machine), policies);
    if (isUsed) expect(computed?.status.phase).toBe("Claimed");
  });

  it("accepts whole demands beside pods that the ledger does not count, and none beside those that it counts", () => {
    const pods = new Map([["k-n", [buildPod("p")]]]);
    const [ignored] = buildComputedNodes([node], seen(buildMachine("n", "FREE"), pods), policies);
    expect(ignored).toMatchObject({ sharedWith: "pod default/p", status: { phase: "Available" } });
    const [counted] = buildComputedNodes([node], seen(buildMachine("n", "FOREIGN_USE"), pods), policies);
    expect(counted).toMatchObject({ sharedWith: "pod default/p", status: { phase: "Claimed" } });
  });
});

it("does not count a machine in partial use as free for whole demands", () => {
  for (const standing of ["SHARED", "FOREIGN_USE"] as const)
    expect(buildFreeMachines([], seen(buildMachine("m", standing)), policies)).toEqual([]);
  expect(buildFreeMachines([], seen(buildMachine("m", "FREE")), policies)).toMatchObject([{ name: "k-m", pool: "a" }]);
});

describe("the machines that are granted in parts", () => {
  const amounts = { allocatable: new Map([["cpu", 4000]]), free: new Map([["cpu", 1000]]) };
  const parts = (machine: Machine, own: readonly ScaledNode[] = []) =>
    listMachinesInParts(own, seen(machine), policies);
  const ending = buildNode("n", {
    spec: { terminate: { code: "IDLE", message: "", atMs: 0, drainUntilMs: 0 } },
  });

  it("include a machine with shared holders or foreign pods, with its room", () => {
    for (const standing of ["SHARED", "FOREIGN_USE"] as const) {
      expect(parts(buildMachine("m", standing, undefined, amounts))).toMatchObject([{ name: "k-m", room: amounts }]);
      expect(parts(buildMachine("n", standing, undefined, amounts), [node])).toMatchObject([
        { name: "n", room: amounts },
      ]);
    }
  });

  it.each<[string, Machine, ScaledNode[]]>([
    ["no whole machine", buildMachine("m", "FREE", undefined, amounts), []],
    ["no cordoned machine", buildMachine("m", "SHARED", undefined, { ...amounts, cordoned: true }), []],
    ["no machine of an unscaled pool", buildMachine("m", "SHARED", undefined, { ...amounts, pool: "b" }), []],
    ["no node that must end", buildMachine("n", "SHARED", undefined, amounts), [ending]],
    [
      "no booting node",
      buildMachine("n", "SHARED", undefined, amounts),
      [buildNode("n", { status: { phase: "Created" } })],
    ],
  ])("include %s", (_what, machine, own) => {
    expect(parts(machine, own)).toEqual([]);
  });

  it("have the room of a booting node as soon as the ledger knows its size", () => {
    const [booting] = buildComputedNodes([node], seen(buildMachine("n", "NOT_READY", undefined, amounts)), policies);
    expect(booting?.room?.free).toEqual(amounts.allocatable);
    const [free] = buildComputedNodes([node], seen(buildMachine("n", "FREE", undefined, amounts)), policies);
    expect(free?.room?.free).toEqual(amounts.free);
    const [unknown] = buildComputedNodes([node], seen(buildMachine("n", "FREE")), policies);
    expect(unknown?.room).toBeUndefined();
  });
});

describe("labels and taints", () => {
  const taints = [{ key: "gpu", effect: "NoSchedule" }];
  const joined = { name: "k-n", labels: { disk: "ssd" }, taints };

  it("of a node are known once it has been ready", () => {
    const declared = new Map([["a", buildPolicy({ taints })]]);
    const use = seen(buildMachine("n", "FREE", undefined, { taints }));
    expect(buildComputedNodes([node], use, declared)).toMatchObject([{ joined }]);
    const young = buildNode("n", { status: { phase: "Created" } });
    expect(buildComputedNodes([young], use, declared)[0]).not.toHaveProperty("joined");
  });

  it("of a node are the declared ones of its pool, before it loses its startup taint", () => {
    const declared = new Map([["a", buildPolicy({ taints })]]);
    const kubeNodes = inCluster(buildKubeNode("n", { hasStartupTaint: true }));
    const use = { ...seen(buildMachine("n", "CORDONED", undefined, { cordoned: false })), kubeNodes };
    expect(buildComputedNodes([node], use, declared)[0]?.joined?.taints).toEqual(taints);
  });

  it("of a node omit an undeclared taint, so that its demand waits until the node is healthy or ends", () => {
    const use = seen(buildMachine("n", "CORDONED", undefined, { taints, cordoned: false }));
    expect(buildComputedNodes([node], use, policies)[0]?.joined?.taints).toEqual([]);
  });

  it("of machines that the scaler did not create are known while the watcher reports them", () => {
    const allocatable = new Map([["cpu", 1]]);
    const use = seen(buildMachine("n", "FREE", undefined, { taints, allocatable }));
    expect(buildFreeMachines([], use, policies)).toMatchObject([{ joined }]);
    const parts = seen(buildMachine("n", "FOREIGN_USE", undefined, { taints, allocatable }));
    expect(listMachinesInParts([], parts, policies)).toMatchObject([{ joined }]);
    const [unknown] = buildFreeMachines([], { ...use, kubeNodes: inCluster() }, policies);
    expect(unknown).not.toHaveProperty("joined");
  });
});

it("counts the machines of unscaled pools by zone, free and held ones", () => {
  const names = ["n1", "n2", "n3", "n4"];
  const zones = ["z", "z", undefined, "z"];
  const kubeNodes = names.map((name, index) => {
    const zone = zones[index];
    return buildKubeNode(name, { labels: zone === undefined ? {} : { "topology.kubernetes.io/zone": zone } });
  });
  const machines = inLedger(
    buildMachine("n1", "FREE", undefined, { pool: "fixed" }),
    buildMachine("n2", "HELD", holder, { pool: "fixed" }),
    buildMachine("n3", "FREE", undefined, { pool: "fixed" }),
    buildMachine("n4", "FREE"),
  );
  const counts = countUnscaledZones({ machines, pods: new Map(), kubeNodes: inCluster(...kubeNodes) }, policies);
  expect(counts).toEqual(new Map([["fixed", new Map([["z", 2]])]]));
});
