import type { Amounts } from "@muster/resources";
import { partialNodeOf, standingOf, uncountedUseOf, type MachineRecord, type Machines } from "../ledger/machines.ts";

/** Amounts of a pool, by resource. */
export type PoolAmounts = {
  /** What its ready and schedulable nodes can allocate. Nodes of unknown size add nothing. */
  readonly allocatable: Amounts;
  /** What can be granted of them in parts now. */
  readonly free: Amounts;
  /** What pods use of all nodes that no grant counts. */
  readonly foreign: { readonly pods: number; readonly requests: Amounts };
};

const NONE: Amounts = new Map();
export const NO_AMOUNTS: PoolAmounts = { allocatable: NONE, free: NONE, foreign: { pods: 0, requests: NONE } };

const known = new WeakMap<Machines["nodes"], ReadonlyMap<string, PoolAmounts>>();

/** By pool. Visits every node once for each state of the machines. */
export function summarisePools({ nodes }: Pick<Machines, "nodes">): ReadonlyMap<string, PoolAmounts> {
  const same = known.get(nodes);
  if (same !== undefined) return same;
  const pools = new Map<string, ReturnType<typeof emptySum>>();
  for (const record of nodes.values()) {
    const pool = record.facts?.pool;
    if (pool === undefined) continue;
    const sum = pools.get(pool) ?? emptySum();
    pools.set(pool, sum);
    addNode(sum, record);
  }
  known.set(nodes, pools);
  return pools;
}

function emptySum() {
  const sum = () => new Map<string, number>();
  return { allocatable: sum(), free: sum(), foreign: { pods: 0, requests: sum() } };
}

function addNode(sum: ReturnType<typeof emptySum>, record: MachineRecord): void {
  const { facts } = record;
  if (facts === undefined) return;
  const use = uncountedUseOf(facts, record);
  sum.foreign.pods += use?.pods ?? 0;
  add(sum.foreign.requests, use?.requests);
  if (!facts.ready || !facts.schedulable || facts.allocatable === undefined) return;
  const standing = standingOf(facts, record);
  add(sum.allocatable, facts.allocatable);
  add(sum.free, standing === "free" ? facts.allocatable : partialNodeOf(facts, record, standing)?.free);
}

function add(sum: Map<string, number>, amounts = NONE): void {
  for (const [resource, amount] of amounts) sum.set(resource, (sum.get(resource) ?? 0) + amount);
}
