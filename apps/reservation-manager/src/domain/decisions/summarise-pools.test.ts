import fc from "fast-check";
import { expect, it } from "vitest";
import { firstNodes, operations, startRun, stepRun } from "../../../test/random-world.ts";
import {
  getNodeStanding,
  findUncountedUse,
  type MachineRecord,
  type Machines,
  type NodeFacts,
} from "../ledger/machines.ts";
import { compareText, SortedMap } from "../ledger/sorted-map.ts";
import { summarisePools, type PoolAmounts } from "./summarise-pools.ts";

type Flat = Record<string, unknown>;
type LiveRecord = MachineRecord & { readonly facts: NodeFacts };

/** Returns the use of a resource on a node: by its holder, its parts, and pods that no grant covers. */
function usedOf(record: LiveRecord, resource: string): number {
  const { facts, holder, parts = [] } = record;
  const uncounted = findUncountedUse(facts, record);
  const held = holder === undefined ? 0 : (facts.allocatable?.get(resource) ?? 0);
  const uses = [
    ...parts.map(({ requests }) => ({ pods: 1, requests })),
    ...(uncounted === undefined ? [] : [uncounted]),
  ];
  const amounts = uses.map(({ pods, requests }) => (requests.get(resource) ?? 0) + (resource === "pods" ? pods : 0));
  return amounts.reduce((sum, amount) => sum + amount, held);
}

/** Returns the amounts that one node adds to its pool. */
function amountsOf(record: LiveRecord): readonly (readonly [string, number])[] {
  const { facts } = record;
  const uncounted = findUncountedUse(facts, record);
  const standing = getNodeStanding(facts, record);
  const isOnlyTainted = !facts.cordoned && facts.taints.length > 0;
  const tolerated = { ...facts, schedulable: facts.schedulable || isOnlyTainted };
  const size = facts.ready && facts.schedulable ? [...(facts.allocatable ?? [])] : [];
  const free = size.map(([resource, amount]) => [`free ${resource}`, amount - usedOf(record, resource)] as const);
  const isGrantable = ["free", "shared", "foreign"].includes(standing) && free.every(([, amount]) => amount >= 0);
  return [
    ["held", getNodeStanding(tolerated, record) === "held" ? 1 : 0],
    ["foreign pods", uncounted?.pods ?? 0],
    ...[...(uncounted?.requests ?? [])].map(([resource, amount]) => [`foreign ${resource}`, amount] as const),
    ...size.map(([resource, amount]) => [`allocatable ${resource}`, amount] as const),
    ...(isGrantable ? free : []),
  ];
}

/** Whether the use of a granted node exceeds its allocatable amounts. */
function isOvercommitted(record: LiveRecord): boolean {
  const { facts, holder, parts } = record;
  if (facts.allocatable === undefined || (holder === undefined && parts === undefined)) return false;
  return RESOURCES.some((resource) => usedOf(record, resource) > (facts.allocatable?.get(resource) ?? 0));
}

/** All resources of the random nodes and requests. */
const RESOURCES = ["pods", "cpu", "memory", "example.com/gpu"];

/** Sums over all nodes, by pool, without the counts of an earlier summary. */
function sumNaively({ nodes }: Machines): Record<string, Flat> {
  const pools: Record<string, { sums: Record<string, number>; overcommitted: string[] }> = {};
  for (const [name, { facts, ...more }] of nodes.entries()) {
    if (facts?.pool === undefined) continue;
    const record = { ...more, facts };
    const { sums, overcommitted } = (pools[facts.pool] ??= { sums: {}, overcommitted: [] });
    for (const [key, amount] of amountsOf(record)) sums[key] = (sums[key] ?? 0) + amount;
    if (isOvercommitted(record)) overcommitted.push(name);
  }
  return Object.fromEntries(
    Object.entries(pools).map(([name, { sums, overcommitted }]) => [name, { ...sums, overcommitted }]),
  );
}

function flatten({ allocatable, free, foreign, overcommitted, held }: PoolAmounts): Flat {
  const flat: Flat = { "foreign pods": foreign.pods, overcommitted, held };
  for (const [resource, amount] of allocatable) flat[`allocatable ${resource}`] = amount;
  for (const [resource, amount] of free) flat[`free ${resource}`] = amount;
  for (const [resource, amount] of foreign.requests) flat[`foreign ${resource}`] = amount;
  return flat;
}

it("equals the sum over all nodes, after any changes since the last summary", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const run = startRun(firstNodes);
      const summaries = steps.map((operation) => {
        stepRun(run, operation);
        const { machines } = run.world;
        return { machines, pools: summarisePools(machines) };
      });
      for (const { machines, pools } of summaries) {
        const flat = Object.fromEntries([...pools].map(([name, amounts]) => [name, flatten(amounts)]));
        expect(flat).toEqual(sumNaively(machines));
      }
      expect(summarisePools({ nodes: SortedMap.empty(compareText) }).size).toBe(0);
    }),
    { numRuns: 30 },
  );
});

it("keeps the amounts of pools whose nodes have not changed", () => {
  const run = startRun(firstNodes);
  const before = summarisePools(run.world.machines);
  const [first] = run.world.machines.nodes.entries();
  const nodes = run.world.machines.nodes.delete(first?.[0] ?? "");
  const after = summarisePools({ nodes });
  const pool = first?.[1].facts?.pool;
  expect([...before.keys()].filter((name) => after.get(name) !== before.get(name))).toEqual([pool]);
});
