import { sumUse, type Amounts } from "@muster/resources";
import {
  findPartialNode,
  selectNodeFacts,
  getNodeStanding,
  findUncountedUse,
  withTaintsTolerated,
  type MachineRecord,
  type Machines,
  type NodeFacts,
  type NodeUse,
  type Standing,
} from "../ledger/machines.ts";
import type { PoolNeed } from "../ledger/reservation.ts";
import { compareText, SortedMap } from "../ledger/sorted-map.ts";

/** Amounts of a pool, by resource. */
export type PoolAmounts = {
  /** The amounts that its ready and schedulable nodes can allocate. Nodes of unknown size add nothing. */
  readonly allocatable: Amounts;
  /** The part of `allocatable` that can be granted in parts now. */
  readonly free: Amounts;
  /** The use of all nodes by pods that no grant covers. */
  readonly foreign: { readonly pods: number; readonly requests: Amounts };
  /** Names of over-committed nodes. */
  readonly overcommitted: readonly string[];
  /** Nodes that are granted as a whole and usable, including tainted ones. */
  readonly held: number;
};

const NONE: Amounts = new Map();
export const NO_AMOUNTS: PoolAmounts = {
  ...{ allocatable: NONE, free: NONE, overcommitted: [] },
  foreign: { pods: 0, requests: NONE },
  held: 0,
};

type PoolsByName = ReadonlyMap<string, PoolAmounts>;

type Summary = {
  readonly nodes: Machines["nodes"];
  readonly sums: Map<string, PoolSum>;
  readonly pools: PoolsByName;
};

/** The last summary, kept because successive machines differ in few nodes. */
let latest = emptySummary();

function emptySummary(): Summary {
  return { nodes: SortedMap.empty(compareText), sums: new Map(), pools: new Map() };
}

/** Summarises by pool. Visits only the nodes that have changed since the last call. */
export function summarisePools({ nodes }: Pick<Machines, "nodes">): PoolsByName {
  if (nodes === latest.nodes) return latest.pools;
  const before = latest;
  // After a failure, the next call must count every node.
  latest = emptySummary();
  latest = countChanges(before, nodes);
  return latest.pools;
}

function countChanges({ nodes: known, sums, pools: before }: Summary, nodes: Machines["nodes"]): Summary {
  const changed = new Set<string>();
  for (const change of nodes.changesSince(known)) {
    if (change.before !== undefined) changed.add(countNode(sums, change.before, -1));
    if (change.after !== undefined) changed.add(countNode(sums, change.after, 1));
  }
  const pools = new Map(before);
  for (const pool of changed) {
    const sum = sums.get(pool);
    if (sum === undefined) pools.delete(pool);
    else pools.set(pool, amountsOf(sum));
  }
  return { nodes, sums, pools };
}

/** Summarises the nodes that a need accepts. Visits every node. */
export function summariseAccepted(
  { nodes }: Pick<Machines, "nodes">,
  { pool, selection }: Pick<PoolNeed, "pool" | "selection">,
): PoolAmounts {
  const sums = new Map<string, PoolSum>();
  for (const record of nodes.values()) {
    if (record.facts?.pool !== pool) continue;
    const facts = selectNodeFacts(record.facts, selection);
    if (facts !== undefined) countNode(sums, { ...record, facts }, 1);
  }
  return amountsOf(sums.get(pool) ?? emptySum());
}

/** By resource, the sum and the number of nodes with it. A resource that no node has is dropped. */
type Sum = Map<string, { amount: number; nodes: number }>;

type PoolSum = {
  readonly allocatable: Sum;
  readonly free: Sum;
  readonly foreign: Sum;
  readonly overcommitted: Set<string>;
  foreignPods: number;
  held: number;
  nodes: number;
};

function emptySum(): PoolSum {
  const sums = { allocatable: new Map(), free: new Map(), foreign: new Map() };
  return { ...sums, overcommitted: new Set(), foreignPods: 0, held: 0, nodes: 0 };
}

function amountsOf({ allocatable, free, foreign, foreignPods, overcommitted, held }: PoolSum): PoolAmounts {
  const total = (sum: Sum): Amounts => new Map([...sum].map(([resource, { amount }]) => [resource, amount]));
  return {
    allocatable: total(allocatable),
    free: total(free),
    foreign: { pods: foreignPods, requests: total(foreign) },
    overcommitted: [...overcommitted].sort(compareText),
    held,
  };
}

/** Adds a node to the sum of its pool, or removes it. Returns the name of the pool, or an empty string if the node has none. */
function countNode(sums: Map<string, PoolSum>, record: MachineRecord, change: 1 | -1): string {
  const { facts } = record;
  if (facts?.pool === undefined) return "";
  const sum = sums.get(facts.pool) ?? emptySum();
  sum.nodes += change;
  if (sum.nodes === 0) sums.delete(facts.pool);
  else sums.set(facts.pool, sum);
  const use = findUncountedUse(facts, record);
  sum.foreignPods += change * (use?.pods ?? 0);
  addTo(sum.foreign, use?.requests, change);
  if (computeExcess(facts, record, use).size > 0)
    if (change === 1) sum.overcommitted.add(facts.name);
    else sum.overcommitted.delete(facts.name);
  if (getNodeStanding(withTaintsTolerated(facts), record) === "held") sum.held += change;
  if (!facts.ready || !facts.schedulable || facts.allocatable === undefined) return facts.pool;
  const standing = getNodeStanding(facts, record);
  addTo(sum.allocatable, facts.allocatable, change);
  addTo(sum.free, findFreeAmounts(facts, record, standing), change);
  return facts.pool;
}

function addTo(sum: Sum, amounts: Amounts = NONE, change: 1 | -1): void {
  for (const [resource, amount] of amounts) {
    const total = sum.get(resource) ?? { amount: 0, nodes: 0 };
    total.amount += change * amount;
    total.nodes += change;
    if (total.nodes === 0) sum.delete(resource);
    else sum.set(resource, total);
  }
}

/**
 * Returns the use of a granted node beyond its allocatable amounts, by resource. Grants alone never exceed them: foreign pods came later, or the node shrank.
 * On a machine that is granted as a whole, all foreign use is excess.
 */
export function computeExcess(
  { allocatable }: NodeFacts,
  { holder, parts = [] }: MachineRecord,
  uncounted: NodeUse | undefined,
): Amounts {
  const excess = new Map<string, number>();
  if (allocatable === undefined || (holder === undefined && parts.length === 0)) return excess;
  const used = new Map(holder === undefined ? [] : allocatable);
  for (const { requests } of parts) add(used, sumUse(requests));
  if (uncounted !== undefined) add(used, sumUse(uncounted.requests, uncounted.pods));
  for (const [resource, amount] of used) {
    const more = amount - (allocatable.get(resource) ?? 0);
    if (more > 0) excess.set(resource, more);
  }
  return excess;
}

function add(sum: Map<string, number>, amounts = NONE): void {
  for (const [resource, amount] of amounts) sum.set(resource, (sum.get(resource) ?? 0) + amount);
}

/** Returns the amounts that can be granted in parts, including those of a node that is free as a whole. Undefined: none, or the size is unknown. */
export function findFreeAmounts(facts: NodeFacts, record: MachineRecord, standing: Standing): Amounts | undefined {
  return standing === "free" ? facts.allocatable : findPartialNode(facts, record, standing)?.free;
}
