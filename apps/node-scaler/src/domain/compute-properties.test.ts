import fc from "fast-check";
import { expect, it } from "vitest";
import { computeByLoops, buildOutcome } from "../../bench/nested-loops.ts";
import { applyPlan, snapshots } from "../../test/scaling-snapshots.ts";
import { computeScaling, type ScalingPlan, type ScalingSnapshot } from "./compute.ts";
import type { ScaledNode } from "./node.ts";
import { mergeStandby } from "./plan-standby.ts";

const RUNS = { numRuns: 300 };

function check(property: (snapshot: ScalingSnapshot, plan: ScalingPlan) => void): void {
  fc.assert(
    fc.property(snapshots, (snapshot) => property(snapshot, computeScaling(snapshot))),
    RUNS,
  );
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of value instanceof Map ? value.values() : Object.values(value)) deepFreeze(part);
  }
  return value;
}

function groupsOf({ demands, pools }: ScalingSnapshot): string[][] {
  const known = demands.filter(({ pool }) => pools.has(pool));
  return [...Map.groupBy(known, ({ group, name }) => group ?? name).values()].map((members) =>
    members.map(({ name }) => name),
  );
}

function alive({ nodes }: ScalingSnapshot, pool: string): ScaledNode[] {
  return nodes.filter(({ spec, status }) => spec.pool === pool && status.phase !== "Terminated");
}

it("decides as a comparison of each demand with each node would", () => {
  fc.assert(
    fc.property(snapshots, (snapshot) => {
      expect(buildOutcome(computeScaling(snapshot))).toEqual(computeByLoops(snapshot));
    }),
    { numRuns: 1000 },
  );
});

it("decides the same in any order of its input", () => {
  fc.assert(
    fc.property(
      snapshots.chain((snapshot) =>
        fc.record({
          snapshot: fc.constant(snapshot),
          nodes: fc.shuffledSubarray([...snapshot.nodes], { minLength: snapshot.nodes.length }),
          demands: fc.shuffledSubarray([...snapshot.demands], { minLength: snapshot.demands.length }),
          machines: fc.shuffledSubarray([...snapshot.machines], { minLength: snapshot.machines.length }),
          unavailable: fc.shuffledSubarray([...snapshot.unavailable], { minLength: snapshot.unavailable.length }),
        }),
      ),
      ({ snapshot, ...shuffled }) => {
        const pools = new Map([...snapshot.pools].toReversed());
        const plan = computeScaling({ ...snapshot, ...shuffled, pools });
        expect({ ...plan, bindings: [...plan.bindings] }).toEqual(
          (({ bindings, ...rest }) => ({ ...rest, bindings: [...bindings] }))(computeScaling(snapshot)),
        );
      },
    ),
    RUNS,
  );
});

/** Whether a new standby node may complete a waiting gang, which then takes or adds other nodes. */
function mayServeWaiting({ waits, start }: ScalingPlan): boolean {
  return waits.some(({ code }) => code !== "RATE_LIMITED") && start.some(({ because }) => because === "STANDBY");
}

it("changes nothing in the world that it planned, unless boots were deferred", () => {
  check((snapshot, plan) => {
    if (plan.waits.some(({ code }) => code === "RATE_LIMITED") || mayServeWaiting(plan)) return;
    // Standby nodes may be promised to waiting demands, for room or for spot instances. Other nodes then become standby.
    const waiting = plan.waits.some(({ code }) => ["POOL_MAX", "GANG_INCOMPLETE", "UNAVAILABLE"].includes(code));
    const spares = !waiting && snapshot.limits.bootsPerRound > plan.start.length;
    const world = applyPlan(snapshot, plan, "next");
    const again = computeScaling(world);
    if (spares) expect(again.start).toEqual([]);
    expect(again.start.filter(({ because }) => because === "DEMAND")).toEqual([]);
    expect(again.stop).toEqual([]);
    const standing = new Set(plan.start.filter(({ because }) => because === "STANDBY").map(({ name }) => name));
    const kept = [...again.bindings].filter(([demand, node]) => plan.bindings.has(demand) || !standing.has(node));
    expect(new Map(kept)).toEqual(plan.bindings);
    // A started node begins to be idle only once it has joined.
    const started = new Set(plan.start.map(({ name }) => name));
    expect(again.updates.filter(({ name }) => !started.has(name))).toEqual([]);
  });
});

/** Runs round after round, until no more nodes are booted. */
function settle(snapshot: ScalingSnapshot) {
  let world = snapshot;
  let booted = 0;
  let mayDependOnOrder = false;
  for (let rounds = 1; rounds <= 100; rounds += 1) {
    const plan = computeScaling(world);
    mayDependOnOrder ||= mayServeWaiting(plan);
    if (plan.start.length === 0) return { booted, last: plan, mayDependOnOrder };
    expect(plan.start.length).toBeLessThanOrEqual(snapshot.limits.bootsPerRound);
    booted += plan.start.length;
    world = applyPlan(world, plan, `round${rounds}`);
  }
  throw new Error("the rounds boot nodes without end");
}

it("boots in several rounds the nodes that it would boot without a limit, and finally defers none", () => {
  check((snapshot) => {
    const wanted = settle({ ...snapshot, limits: { ...snapshot.limits, bootsPerRound: 1000 } });
    const { booted, last, mayDependOnOrder } = settle(snapshot);
    expect(last.waits.filter(({ code }) => code === "RATE_LIMITED")).toEqual([]);
    if (mayDependOnOrder || wanted.mayDependOnOrder) return;
    expect(booted).toBe(wanted.booted);
    expect(new Set(last.bindings.keys())).toEqual(new Set(wanted.last.bindings.keys()));
  });
});

it("binds no node to two demands, and no demand to a missing node", () => {
  check((snapshot, plan) => {
    const names = [...plan.bindings.values()];
    expect(new Set(names).size).toBe(names.length);
    const there = new Set([...snapshot.nodes, ...snapshot.machines, ...plan.start].map(({ name }) => name));
    for (const name of names) expect(there).toContain(name);
  });
});

it("writes its bindings to the records", () => {
  check((snapshot, plan) => {
    const bound = new Map([...plan.bindings].map(([demand, name]) => [name, demand]));
    const stopped = new Set(plan.stop.map(({ name }) => name));
    for (const { name, status, spec } of applyPlan(snapshot, plan, "next").nodes) {
      const usable = ["Creating", "Created", "Available"].includes(status.phase) && spec.terminate === undefined;
      if (usable) expect([name, status.boundTo]).toEqual([name, bound.get(name)]);
      if (stopped.has(name)) expect(status.boundTo).toBeUndefined();
    }
  });
});

it("changes only nodes without a holder that are not ending", () => {
  check((snapshot, plan) => {
    const usable = new Set(
      snapshot.nodes
        .filter(
          ({ spec, status }) =>
            spec.terminate === undefined && ["Creating", "Created", "Available"].includes(status.phase),
        )
        .map(({ name }) => name),
    );
    for (const { name } of [...plan.updates, ...plan.stop]) expect(usable).toContain(name);
  });
});

it("gives a gang all of its nodes or none, except while it waits for its turn to boot", () => {
  check((snapshot, plan) => {
    const rationed = new Set(
      plan.waits.filter(({ code }) => code === "RATE_LIMITED").flatMap(({ demands }) => demands),
    );
    for (const members of groupsOf(snapshot)) {
      const bound = members.filter((name) => plan.bindings.has(name)).length;
      if (!members.some((name) => rationed.has(name))) expect([0, members.length]).toContain(bound);
    }
  });
});

it("does not split a gang that fits into one round of boots", () => {
  check((snapshot, plan) => {
    const started = new Set(plan.start.map(({ boundTo }) => boundTo));
    for (const { code, demands } of plan.waits) {
      if (code !== "RATE_LIMITED" || demands.length >= snapshot.limits.bootsPerRound) continue;
      const members = groupsOf(snapshot).find((names) => demands.some((name) => names.includes(name))) ?? [];
      const booted = members.filter((name) => started.has(name)).length;
      if (booted + demands.length <= snapshot.limits.bootsPerRound) expect(booted).toBe(0);
    }
  });
});

it("explains each group whose nodes are not all ready", () => {
  check((snapshot, plan) => {
    const explained = new Set([...plan.waits.map(({ group }) => group), ...plan.ignored.map(({ demand }) => demand)]);
    const ready = new Set([
      ...snapshot.nodes.filter(({ status }) => status.phase === "Available").map(({ name }) => name),
      ...snapshot.machines.map(({ name }) => name),
    ]);
    for (const { name, group, pool } of snapshot.demands) {
      const node = plan.bindings.get(name);
      const isReady = node !== undefined && ready.has(node);
      if (!isReady) expect(explained).toContain(snapshot.pools.has(pool) ? (group ?? name) : name);
    }
    for (const { message } of plan.waits) expect(message).toMatch(/\d/);
  });
});

it("never creates more nodes of a pool than its maximum", () => {
  check((snapshot, plan) => {
    for (const [name, { max }] of snapshot.pools) {
      const started = plan.start.filter(({ spec }) => spec.pool === name).length;
      if (started > 0) expect(alive(snapshot, name).length + started).toBeLessThanOrEqual(max);
    }
  });
});

it("never stops a standby node, and keeps the required number", () => {
  check((snapshot, plan) => {
    const stopped = new Set(plan.stop.map(({ name }) => name));
    const bound = new Set(plan.bindings.values());
    for (const [name, pool] of snapshot.pools) {
      for (const { instanceType, spot, count } of mergeStandby(pool.standby)) {
        const standing = snapshot.nodes.filter(
          (node) =>
            node.spec.pool === name &&
            node.spec.terminate === undefined &&
            ["Creating", "Created", "Available"].includes(node.status.phase) &&
            node.spec.instanceType === instanceType &&
            node.spec.spot === spot &&
            node.spec.volumeGib === pool.volumeGib &&
            !bound.has(node.name),
        );
        const left = standing.filter((node) => !stopped.has(node.name)).length;
        expect(left).toBeGreaterThanOrEqual(Math.min(count, standing.length));
      }
    }
  });
});

it("does not mutate its input", () => {
  fc.assert(
    fc.property(snapshots, (snapshot) => {
      const before = structuredClone(snapshot);
      computeScaling(deepFreeze(snapshot));
      expect(snapshot).toEqual(before);
    }),
    RUNS,
  );
});
