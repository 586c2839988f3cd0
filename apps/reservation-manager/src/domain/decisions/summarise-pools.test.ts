import fc from "fast-check";
import { expect, it } from "vitest";
import { firstNodes, operations, startRun, step } from "../../../test/random-world.ts";
import type { Machines, MachineRecord } from "../ledger/machines.ts";
import { compareText, SortedMap } from "../ledger/sorted-map.ts";
import { summarisePools, type PoolAmounts } from "./summarise-pools.ts";

/** What the pool of one node has. */
function summaryOf(name: string, record: MachineRecord): PoolAmounts | undefined {
  const pool = record.facts?.pool;
  const nodes = SortedMap.empty<string, MachineRecord>(compareText).set(name, record);
  return pool === undefined ? undefined : summarisePools({ nodes }).get(pool);
}

/** The sums of the nodes, each on its own, by pool: allocatable, free and foreign, with foreign pods and the names of over-committed nodes. */
function sumsOf({ nodes }: Machines): Record<string, Record<string, unknown>> {
  const pools: Record<string, Record<string, unknown> & { overcommitted: string[] }> = {};
  for (const [name, record] of nodes.entries()) {
    const own = summaryOf(name, record);
    if (own === undefined) continue;
    const sums = (pools[record.facts?.pool ?? ""] ??= { overcommitted: [] });
    const add = (key: string, amount: number): void => {
      sums[key] = Number(sums[key] ?? 0) + amount;
    };
    for (const [resource, amount] of own.allocatable) add(`allocatable ${resource}`, amount);
    for (const [resource, amount] of own.free) add(`free ${resource}`, amount);
    for (const [resource, amount] of own.foreign.requests) add(`foreign ${resource}`, amount);
    add("foreign pods", own.foreign.pods);
    sums.overcommitted.push(...own.overcommitted);
  }
  return pools;
}

function flatten({ allocatable, free, foreign, overcommitted }: PoolAmounts): Record<string, unknown> {
  const flat: Record<string, unknown> = { "foreign pods": foreign.pods, overcommitted };
  for (const [resource, amount] of allocatable) flat[`allocatable ${resource}`] = amount;
  for (const [resource, amount] of free) flat[`free ${resource}`] = amount;
  for (const [resource, amount] of foreign.requests) flat[`foreign ${resource}`] = amount;
  return flat;
}

it("sums what each node has on its own, however the nodes have changed since the last summary", () => {
  fc.assert(
    fc.property(operations, (steps) => {
      const run = startRun(firstNodes);
      const summaries = steps.map((operation) => {
        step(run, operation);
        const { machines } = run.world;
        return { machines, pools: summarisePools(machines) };
      });
      for (const { machines, pools } of summaries) {
        const flat = Object.fromEntries([...pools].map(([name, amounts]) => [name, flatten(amounts)]));
        expect(flat).toEqual(sumsOf(machines));
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
