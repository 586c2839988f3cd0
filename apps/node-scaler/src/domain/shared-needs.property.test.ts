import { computeAllocatedFraction, canFit, subtractAmounts, sumUse, type Amounts } from "@muster/resources";
import fc from "fast-check";
import { expect, it } from "vitest";
import { aDemand, aMachine, aNode, aPool, applyPlan, aSnapshot, NOW } from "../../test/scaling-snapshots.ts";
import { compareNeeds } from "./compare-needs.ts";
import { computeScaling, type ScalingPlan, type ScalingSnapshot } from "./compute.ts";
import type { Demand } from "./demand.ts";
import { compareDemands, type FreeMachine } from "./fit.ts";
import type { ScaledNode } from "./node.ts";

/** The allocatable amounts of every node of the pool. */
const SIZE: Amounts = new Map(Object.entries({ cpu: 8, memory: 8, pods: 4 }));

const anyPart = (max: number): fc.Arbitrary<Amounts> =>
  fc
    .record({ cpu: fc.integer({ min: 0, max }), memory: fc.integer({ min: 0, max }) })
    .map((requests) => new Map(Object.entries(requests)));

const anyDemand = (index: number): fc.Arbitrary<Demand> =>
  fc
    .record({
      group: fc.constantFrom(undefined, "g1", "g2", "g3"),
      createdAtMs: fc.integer({ min: NOW - 3, max: NOW }),
      shared: fc.option(anyPart(9), { freq: 4, nil: undefined }),
    })
    .map(({ shared, ...differences }) => aDemand(`d${index}`, { ...differences, ...(shared && { shared }) }));

/** Generates machines in partial use, free machines, and nodes that are free or boot. Their names are in the order in which the ledger breaks ties. */
const worlds: fc.Arbitrary<ScalingSnapshot> = fc
  .tuple(fc.nat(14), fc.nat(3), fc.nat(2), fc.nat(3))
  .chain(([demands, parts, machines, nodes]) =>
    fc.record({
      demands: fc.tuple(...Array.from({ length: demands }, (_, index) => anyDemand(index))),
      used: fc.array(anyPart(8), { minLength: parts, maxLength: parts }),
      machines: fc.constant(Array.from({ length: machines }, (_, index) => `m${index}`)),
      nodes: fc.array(
        fc.record({
          phase: fc.constantFrom("Creating", "Created", "Available"),
          boundTo: fc.option(fc.nat(14), { nil: undefined }),
        }),
        { minLength: nodes, maxLength: nodes },
      ),
      max: fc.integer({ min: 0, max: 9 }),
    }),
  )
  .map(({ demands, used, machines, nodes, max }) => {
    const free = { room: { allocatable: SIZE, free: SIZE } };
    return aSnapshot({
      demands,
      parts: used.map((use, index) =>
        aMachine(`a${index}`, { room: { allocatable: SIZE, free: subtractAmounts(SIZE, sumUse(use)) } }),
      ),
      machines: machines.map((name) => aMachine(name, free)),
      nodes: nodes.map(({ phase, boundTo }, index) =>
        aNode(`n${index}`, { phase, boundTo: boundTo === undefined ? undefined : `d${boundTo}` }),
      ),
      pools: [aPool({ max, idleMs: 1e9 })],
      sizes: new Map([
        ["gpu", { byType: new Map([["large", SIZE]]), overheadByType: new Map(), smallest: SIZE, overhead: new Map() }],
      ]),
      limits: { bootsPerRound: 100, spotRequestPauseMs: 60_000 },
    });
  });

type Place = { free: Amounts; isEmpty: boolean };

/** Returns the places that the ledger has once all started nodes are ready, except the place of the node `without`. */
function placesOf({ parts, machines, nodes }: ScalingSnapshot, plan: ScalingPlan, without?: string): Place[] {
  const rank = ({ status }: ScaledNode): number => (status.phase === "Available" ? 0 : 1);
  const empty = [
    ...[...nodes.filter((node) => rank(node) === 0), ...machines].map(({ name }) => name).sort(),
    ...nodes.filter((node) => rank(node) === 1).map(({ name }) => name),
    ...plan.start.map(({ name }) => name).filter((name) => name !== without),
  ];
  const used = parts.map(({ room }: FreeMachine) => ({
    free: room?.free ?? new Map<string, number>(),
    isEmpty: false,
  }));
  return [...used, ...empty.map(() => ({ free: SIZE, isEmpty: true }))];
}

/** Grants one need as the ledger does; returns false if it waits. */
function grant({ shared }: Demand, places: readonly Place[]): boolean {
  const score = ({ free }: Place): number => computeAllocatedFraction(free, SIZE);
  const able = places.filter((place) => (shared === undefined ? place.isEmpty : canFit(shared, place.free)));
  const [first] = able;
  if (first === undefined) return false;
  const best = able.reduce((one, other) => (shared !== undefined && score(other) > score(one) ? other : one), first);
  best.free = shared === undefined ? new Map() : subtractAmounts(best.free, sumUse(shared));
  best.isEmpty = false;
  return true;
}

/** Returns the demands that do not get their planned place. */
function leftWaiting(snapshot: ScalingSnapshot, plan: ScalingPlan, without?: string): readonly Demand[] {
  const places = placesOf(snapshot, plan, without);
  const groups = Map.groupBy(snapshot.demands.toSorted(compareDemands), ({ group, name }) => group ?? name);
  return [...groups.values()].flatMap((members) => {
    const planned = members.filter(({ name }) => plan.bindings.has(name));
    const whole = planned.filter(({ shared }) => shared === undefined);
    const parts = planned.flatMap((demand) => (demand.shared ? [{ ...demand, requests: demand.shared }] : []));
    return [...parts.sort(compareNeeds), ...whole].filter((demand) => !grant(demand, places));
  });
}

function check(property: (snapshot: ScalingSnapshot, plan: ScalingPlan) => void): void {
  fc.assert(
    fc.property(worlds, (snapshot) => property(snapshot, computeScaling(snapshot))),
    { numRuns: 1000 },
  );
}

it("plans nodes on which the ledger can grant every planned need", () => {
  let shared = 0;
  check((snapshot, plan) => {
    shared += plan.bindings.size > new Set(plan.bindings.values()).size ? 1 : 0;
    expect(leftWaiting(snapshot, plan)).toEqual([]);
  });
  expect(shared).toBeGreaterThan(100);
});

it("plans no superfluous node", () => {
  check((snapshot, plan) => {
    for (const { name } of plan.start) expect(leftWaiting(snapshot, plan, name)).not.toEqual([]);
  });
});

it("gives each gang everything that it needs, or nothing, and a reason", () => {
  check((snapshot, plan) => {
    for (const [group, members] of Map.groupBy(snapshot.demands, (demand) => demand.group ?? demand.name)) {
      const bound = members.filter(({ name }) => plan.bindings.has(name)).length;
      expect([0, members.length]).toContain(bound);
      if (bound === 0) expect(plan.waits).toContainEqual(expect.objectContaining({ group }));
    }
  });
});

it("creates and ends nothing more in the world that it planned", () => {
  check((snapshot, plan) => {
    const again = computeScaling(applyPlan(snapshot, plan, "next"));
    expect(again.start).toEqual([]);
    expect(again.stop).toEqual([]);
    expect(again.updates.filter(({ name }) => !plan.start.some((started) => started.name === name))).toEqual([]);
    expect(new Set(again.bindings.keys())).toEqual(new Set(plan.bindings.keys()));
  });
});

it("decides the same in any order of its input", () => {
  fc.assert(
    fc.property(worlds, ({ ...snapshot }) => {
      const reversed = {
        ...snapshot,
        demands: snapshot.demands.toReversed(),
        nodes: snapshot.nodes.toReversed(),
        parts: snapshot.parts.toReversed(),
        machines: snapshot.machines.toReversed(),
      };
      const [one, other] = [computeScaling(snapshot), computeScaling(reversed)];
      expect([...other.bindings]).toEqual([...one.bindings]);
      expect(other.start).toEqual(one.start);
      expect(other.updates).toEqual(one.updates);
    }),
    { numRuns: 300 },
  );
});
