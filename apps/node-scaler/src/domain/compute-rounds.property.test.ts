import fc from "fast-check";
import { expect, it } from "vitest";
import { applyPlan, snapshots } from "../../test/scaling-snapshots.ts";
import { computeScaling, type ScalingPlan, type ScalingSnapshot } from "./compute.ts";
import type { NodeSpec, ScaledNode } from "./node.ts";

const MAX_ROUNDS = 60;

/** Passes the time between two rounds: terminating nodes end and booting nodes become ready, each one or not. */
function passTime(world: ScalingSnapshot, happens: (name: string) => boolean): ScalingSnapshot {
  const nodes = world.nodes.flatMap((node): ScaledNode[] => {
    if (!happens(node.name)) return [node];
    if (node.spec.terminate !== undefined || node.status.phase === "Terminating") return [];
    if (node.status.phase !== "Creating" && node.status.phase !== "Created") return [node];
    return [{ ...node, status: { ...node.status, phase: "Available" } }];
  });
  return { ...world, nodes };
}

type Look = (plan: ScalingPlan, world: ScalingSnapshot) => void;

/** Runs round after round for equal demands, until no plan changes a node. */
function live(snapshot: ScalingSnapshot, happenings: readonly number[], look: Look): ScalingPlan {
  let world = snapshot;
  let quiet = 0;
  for (let round = 0; ; round += 1) {
    expect(round).toBeLessThan(MAX_ROUNDS);
    const plan = computeScaling(world);
    look(plan, world);
    quiet = plan.start.length === 0 && plan.stop.length === 0 ? quiet + 1 : 0;
    if (quiet === 5) return plan;
    const share = happenings[round % happenings.length] ?? 0;
    let number = round;
    world = passTime(applyPlan(world, plan, `round${round}`), () => {
      number += 7;
      // In late rounds all pending changes happen.
      return round > 20 || number % 10 < share;
    });
  }
}

const shares = fc.array(fc.integer({ min: 0, max: 10 }), { minLength: 1, maxLength: 5 });

function check(look: () => Look): void {
  fc.assert(
    fc.property(snapshots, shares, (snapshot, happenings) => void live(snapshot, happenings, look())),
    { numRuns: 300 },
  );
}

function kindOf({ pool, instanceType, spot, gpus, privateIpOnly }: NodeSpec): string {
  return [pool, instanceType, spot, gpus, privateIpOnly].join();
}

it("never grows a pool above its maximum while room is made and nodes come and go", () => {
  check(() => (plan, world) => {
    for (const [name, { max }] of world.pools) {
      const alive = world.nodes.filter(({ spec, status }) => spec.pool === name && status.phase !== "Terminated");
      const started = plan.start.filter(({ spec }) => spec.pool === name).length;
      if (started > 0) expect(alive.length + started).toBeLessThanOrEqual(max);
    }
  });
});

it("boots nothing of a kind that it ended to make room, while the demands are unchanged", () => {
  let cases = 0;
  check(() => {
    const ended: ScaledNode[] = [];
    return (plan, world) => {
      for (const { spec, because } of plan.start) {
        const pool = world.pools.get(spec.pool);
        // Standby nodes have the usual volume of the pool, whatever the provider. A node with another volume did not stand by.
        const fixed = because === "STANDBY" || world.fixedSizeVolumes.has(pool?.provider ?? "");
        const same = ended.filter(
          (node) =>
            kindOf(node.spec) === kindOf(spec) &&
            (spec.zone === undefined || spec.zone === node.spec.zone) &&
            (!fixed || spec.volumeGib === node.spec.volumeGib),
        );
        expect(same).toEqual([]);
      }
      for (const { name, because } of plan.stop) {
        const node = world.nodes.find((one) => one.name === name);
        if (node !== undefined && because.message.startsWith("it makes room")) ended.push(node);
      }
      cases += ended.length > 0 ? 1 : 0;
    };
  });
  expect(cases).toBeGreaterThan(0);
});

it("ends with each gang whole or without a node, in whatever rounds its nodes were booted", () => {
  fc.assert(
    fc.property(snapshots, shares, (snapshot, happenings) => {
      const { bindings, waits } = live(snapshot, happenings, () => undefined);
      expect(waits.filter(({ code }) => code === "RATE_LIMITED")).toEqual([]);
      const known = snapshot.demands.filter(({ pool }) => snapshot.pools.has(pool));
      for (const members of Map.groupBy(known, ({ group, name }) => group ?? name).values()) {
        const bound = members.filter(({ name }) => bindings.has(name)).length;
        expect([0, members.length]).toContain(bound);
      }
    }),
    { numRuns: 300 },
  );
});
