import { useOf, type Amounts } from "@muster/resources";
import {
  partialNodeOf,
  seenBy,
  standingOf,
  uncountedUseOf,
  withTaintsTolerated,
  type MachineRecord,
  type Machines,
  type NodeFacts,
  type NodeUse,
} from "../ledger/machines.ts";
import type { PoolNeed } from "../ledger/reservation.ts";

/** Amounts of a pool, by resource. */
export type PoolAmounts = {
  /** What its ready and schedulable nodes can allocate. Nodes of unknown size add nothing. */
  readonly allocatable: Amounts;
  /** What can be granted of them in parts now. */
  readonly free: Amounts;
  /** What pods use of all nodes that no grant counts. */
  readonly foreign: { readonly pods: number; readonly requests: Amounts };
  /** Its over-committed nodes, by name. */
  readonly overcommitted: readonly string[];
  /** Nodes that are granted as a whole and usable, tainted ones included. */
  readonly held: number;
};

const NONE: Amounts = new Map();
export const NO_AMOUNTS: PoolAmounts = {
  ...{ allocatable: NONE, free: NONE, overcommitted: [] },
  foreign: { pods: 0, requests: NONE },
  held: 0,
};

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

/** Of the nodes that a need accepts. Visits every node. */
export function summariseAccepted(
  { nodes }: Pick<Machines, "nodes">,
  need: Pick<PoolNeed, "pool" | "selection">,
): PoolAmounts {
  const { pool, selection } = need;
  const sum = emptySum();
  for (const record of nodes.values()) {
    if (record.facts?.pool !== pool) continue;
    const facts = selection === undefined ? record.facts : seenBy(record.facts, selection);
    if (facts !== undefined) addNode(sum, { ...record, facts });
  }
  return sum;
}

function emptySum() {
  const sum = () => new Map<string, number>();
  const overcommitted: string[] = [];
  return { allocatable: sum(), free: sum(), foreign: { pods: 0, requests: sum() }, overcommitted, held: 0 };
}

function addNode(sum: ReturnType<typeof emptySum>, record: MachineRecord): void {
  const { facts } = record;
  if (facts === undefined) return;
  const use = uncountedUseOf(facts, record);
  sum.foreign.pods += use?.pods ?? 0;
  add(sum.foreign.requests, use?.requests);
  if (excessOf(facts, record, use).size > 0) sum.overcommitted.push(facts.name);
  if (standingOf(withTaintsTolerated(facts), record) === "held") sum.held += 1;
  if (!facts.ready || !facts.schedulable || facts.allocatable === undefined) return;
  const standing = standingOf(facts, record);
  add(sum.allocatable, facts.allocatable);
  add(sum.free, standing === "free" ? facts.allocatable : partialNodeOf(facts, record, standing)?.free);
}

/**
 * By resource, how much of a granted node is used beyond what it can allocate. No grant does that: foreign pods came later, or the node has shrunk. A machine
 * that is granted as a whole has nothing left, so that all foreign use exceeds it.
 */
export function excessOf(
  { allocatable }: NodeFacts,
  { holder, parts = [] }: MachineRecord,
  uncounted: NodeUse | undefined,
): Amounts {
  const excess = new Map<string, number>();
  if (allocatable === undefined || (holder === undefined && parts.length === 0)) return excess;
  const used = new Map(holder === undefined ? [] : allocatable);
  for (const { requests } of parts) add(used, useOf(requests));
  if (uncounted !== undefined) add(used, useOf(uncounted.requests, uncounted.pods));
  for (const [resource, amount] of used) {
    const more = amount - (allocatable.get(resource) ?? 0);
    if (more > 0) excess.set(resource, more);
  }
  return excess;
}

function add(sum: Map<string, number>, amounts = NONE): void {
  for (const [resource, amount] of amounts) sum.set(resource, (sum.get(resource) ?? 0) + amount);
}
