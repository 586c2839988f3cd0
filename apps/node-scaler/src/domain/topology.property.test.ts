import fc from "fast-check";
import { expect, it } from "vitest";
import { aDemand, aMachine, aNode, aPool, aShortage, aSnapshot, applyPlan } from "../../test/scaling-snapshots.ts";
import { computeScaling, type ScalingPlan, type ScalingSnapshot } from "./compute.ts";
import type { Demand } from "./demand.ts";

const KEY = "topology.kubernetes.io/zone";
const topology = { key: KEY };
const ZONES = ["a", "b", "c"];
/** In the last world the pools create no nodes. */
const zones = ZONES.slice(0, 2);
const joinedIn = (name: string, zone: string) => ({ joined: { name, labels: { [KEY]: zone }, taints: [] } });

const node = fc.record({
  zone: fc.constantFrom(...ZONES),
  kind: fc.constantFrom("ready", "booting", "machine"),
  pool: fc.constantFrom("gpu", "gpu", "cpu"),
  boundTo: fc.constantFrom(undefined, "g0/0", "g0/1", "g1/0"),
});
type AnyNode = typeof node extends fc.Arbitrary<infer T> ? T : never;

function buildWorld(nodes: readonly AnyNode[], max: number, demands: readonly Demand[]): ScalingSnapshot {
  const named = nodes.map((one, index) => ({ ...one, name: `n${index}` }));
  const own = named.filter(({ kind }) => kind !== "machine");
  return aSnapshot({
    pools: ["gpu", "cpu"].map((name) => aPool({ name, zones, max, idleMs: 1e9 })),
    machines: named.flatMap(({ kind, name, pool, zone }) =>
      kind === "machine" ? [aMachine(name, { pool, ...joinedIn(name, zone) })] : [],
    ),
    nodes: own.map(({ name, kind, pool, zone, boundTo }) =>
      kind === "booting"
        ? aNode(name, { pool, zone, boundTo, phase: "Created" })
        : { ...aNode(name, { pool, zone, boundTo }), ...joinedIn(name, zone) },
    ),
    demands,
    limits: { bootsPerRound: 100, spotRequestPauseMs: 60_000 },
  });
}

/** Returns, by group, the zones of the nodes of its demands. */
function zonesOf(
  { nodes, machines, demands }: ScalingSnapshot,
  { bindings, start }: ScalingPlan,
): Map<string, string[]> {
  const known = new Map<string, string | undefined>([
    ...nodes.map(({ name, spec }) => [name, spec.zone] as const),
    ...machines.map(({ name, joined }) => [name, joined?.labels[KEY]] as const),
    ...start.map(({ name, spec }) => [name, spec.zone] as const),
  ]);
  const found = new Map<string, string[]>();
  for (const { name, group = name } of demands.filter((demand) => demand.topology !== undefined)) {
    const bound = bindings.get(name);
    if (bound !== undefined) found.set(group, [...(found.get(group) ?? []), known.get(bound) ?? "unknown"]);
  }
  return found;
}

const gang = (name: string, pools: readonly string[], differences: Partial<Demand> = {}): Demand[] =>
  pools.map((pool, index) => aDemand(`${name}/${index}`, { group: name, pool, topology, ...differences }));

const pools = fc.array(fc.constantFrom("gpu", "gpu", "cpu"), { minLength: 1, maxLength: 5 });

it("gives a gang nodes of one zone, all of them or none, and is planned once", () => {
  const world = fc.record({
    nodes: fc.array(node, { maxLength: 10 }),
    max: fc.integer({ min: 0, max: 12 }),
    gangs: fc.array(pools, { minLength: 1, maxLength: 3 }),
    others: fc.array(fc.constantFrom("gpu", "cpu"), { maxLength: 3 }),
    short: fc.subarray([...zones]),
  });
  fc.assert(
    fc.property(world, ({ nodes, max, gangs, others, short }) => {
      const demands = [
        ...gangs.flatMap((ofGang, index) => gang(`g${index}`, ofGang, { createdAtMs: index })),
        ...others.map((pool, index) => aDemand(`other/${index}`, { pool })),
      ];
      const snapshot = { ...buildWorld(nodes, max, demands), unavailable: short.map((zone) => aShortage({ zone })) };
      const plan = computeScaling(snapshot);
      for (const [name, found] of zonesOf(snapshot, plan)) {
        expect(new Set(found).size).toBe(1);
        expect(found).toHaveLength(demands.filter(({ group }) => group === name).length);
      }
      const again = computeScaling(applyPlan(snapshot, plan, "r2"));
      expect([again.start, again.stop, again.updates]).toEqual([[], [], []]);
    }),
    { numRuns: 500 },
  );
});

it("completes a gang in the zone with the most free nodes for it, if the maximum of the pool allows that", () => {
  const world = fc.tuple(
    fc.array(node, { maxLength: 8 }),
    fc.integer({ min: 0, max: 10 }),
    fc.integer({ min: 1, max: 6 }),
  );
  fc.assert(
    fc.property(world, ([existing, max, size]) => {
      const nodes = existing.map((one) => ({ ...one, pool: "gpu" as const, boundTo: undefined }));
      const snapshot = buildWorld(
        nodes,
        max,
        gang(
          "g0",
          Array.from({ length: size }, () => "gpu"),
        ),
      );
      const headroom = Math.max(0, max - snapshot.nodes.length);
      const possible = ZONES.flatMap((zone) => {
        const missing = Math.max(0, size - nodes.filter((one) => one.zone === zone).length);
        return missing <= headroom && (missing === 0 || zones.includes(zone)) ? [missing] : [];
      });
      const plan = computeScaling(snapshot);
      expect(plan.bindings.size).toBe(possible.length === 0 ? 0 : size);
      expect(plan.start).toHaveLength(possible.length === 0 ? 0 : Math.min(...possible));
      if (possible.length === 0) expect(plan.waits).toMatchObject([{ group: "g0" }]);
    }),
    { numRuns: 500 },
  );
});
