import type { Amounts } from "@muster/resources";
import { partialNodeOf, standingOf, type Machines } from "../ledger/machines.ts";

/** Amounts of the ready and schedulable nodes of a pool, by resource. Nodes of unknown size add nothing. */
export type PoolAmounts = {
  readonly allocatable: Amounts;
  /** What can be granted in parts now. */
  readonly free: Amounts;
};

/** Visits every node. */
export function sumPoolAmounts(machines: Machines, pool: string): PoolAmounts {
  const allocatable = new Map<string, number>();
  const free = new Map<string, number>();
  for (const record of machines.nodes.values()) {
    const { facts } = record;
    if (facts?.pool !== pool || !facts.ready || !facts.schedulable || facts.allocatable === undefined) continue;
    const standing = standingOf(facts, record);
    add(allocatable, facts.allocatable);
    add(free, standing === "free" ? facts.allocatable : partialNodeOf(facts, record, standing)?.free);
  }
  return { allocatable, free };
}

function add(sum: Map<string, number>, amounts: Amounts = new Map()): void {
  for (const [resource, amount] of amounts) sum.set(resource, (sum.get(resource) ?? 0) + amount);
}
