import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildEnding, buildJoined, buildView, type Machine, planFleetMachines } from "./machine.ts";

const NOW = 1_000_000;
const machine = (more: Partial<Machine> = {}): Machine => ({
  instanceId: "i-1",
  order: {
    nodeName: "n-1",
    owner: "tests",
    instanceType: "small",
    image: "",
    spot: false,
    zone: undefined,
    gpus: 0,
    volumeGib: undefined,
    privateIpOnly: false,
    labels: {},
    taints: [],
  },
  image: "image-1",
  zone: "a",
  nodeIndex: 0,
  state: "pending",
  createdAtMs: NOW,
  bootsAtMs: NOW + 100,
  faults: { bootFailure: undefined, spotLoss: undefined, vanishAfterMs: undefined, ordersIgnored: 0, isTwin: false },
  nodes: [],
  loss: undefined,
  vanishesAtMs: undefined,
  goneAtMs: undefined,
  ...more,
});
const faulty = (faults: Partial<Machine["faults"]>): Machine => machine({ faults: { ...machine().faults, ...faults } });

describe("planFleetMachines", () => {
  it.each<[string, Machine, number, object[]]>([
    ["waits for the boot", machine(), 99, []],
    ["joins once it has booted", machine(), 100, [{ do: "join", as: ["n-1"] }]],
    ["joins under two names", faulty({ isTwin: true }), 100, [{ do: "join", as: ["n-1", "n-1-twin"] }]],
    ["never joins if the boot fails", faulty({ bootFailure: "" }), 100, [{ do: "fail" }]],
    ["does nothing more once it runs", machine({ state: "running" }), 200, []],
    ["ends at its time", machine({ state: "stopping", goneAtMs: NOW + 5 }), 5, [{ do: "end" }]],
    ["does not join after an order to end", machine({ state: "stopping", goneAtMs: NOW + 500 }), 100, []],
    ["is lost even while it ends", machine({ state: "stopping", vanishesAtMs: NOW }), 0, [{ do: "die" }]],
    ["is lost after the notice", machine({ loss: { noticeAtMs: NOW, atMs: NOW + 60 } }), 60, [{ do: "die" }]],
  ])("%s", (_title, given, afterMs, steps) => {
    expect(planFleetMachines([given], NOW + afterMs)).toMatchObject(steps);
  });
});

describe("an order to end", () => {
  it("is executed once, after those that a zombie ignores, and changes no time", () => {
    fc.assert(
      fc.property(fc.nat(5), fc.integer({ min: 1, max: 5 }), (ordersIgnored, more) => {
        let zombie = faulty({ ordersIgnored });
        for (let order = 0; order < ordersIgnored; order++) zombie = buildEnding(zombie, NOW);
        expect(zombie.state).toBe("pending");
        const ending = buildEnding(zombie, NOW + 7);
        let again = ending;
        for (let order = 0; order < more; order++) again = buildEnding(again, NOW + 1_000);
        expect([ending, again]).toMatchObject([{ state: "stopping", goneAtMs: NOW + 7 }, ending]);
      }),
    );
  });

  it("also applies to a machine that joins meanwhile", () => {
    expect(buildJoined(buildEnding(machine(), NOW), NOW).state).toBe("stopping");
  });
});

describe("buildView", () => {
  it("shows a loss from the notice on, and a failed boot once the machine is on", () => {
    const noticed = machine({ loss: { noticeAtMs: NOW + 10, atMs: NOW + 20 } });
    expect(buildView(noticed, NOW + 9)).not.toHaveProperty("lostAtMs");
    expect(buildView(noticed, NOW + 10)).toMatchObject({ lostAtMs: NOW + 20 });
    const failed = faulty({ bootFailure: "no disk" });
    expect(buildView(failed, NOW)).not.toHaveProperty("failure");
    expect(buildView({ ...failed, state: "running" }, NOW)).toMatchObject({ failure: "no disk" });
  });

  it("counts a loss from when the machine has joined", () => {
    const joined = buildJoined(faulty({ spotLoss: { afterMs: 5, noticeMs: 7 }, vanishAfterMs: 3 }), NOW);
    expect(joined).toMatchObject({
      nodes: ["n-1"],
      loss: { noticeAtMs: NOW + 5, atMs: NOW + 12 },
      vanishesAtMs: NOW + 3,
    });
  });
});
