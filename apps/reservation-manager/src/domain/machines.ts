import { knownReservation, type Ledger, type LedgerEvent } from "./ledger.ts";
import { sameOwner, type Owner } from "./reservation.ts";
import { compareText, SortedMap } from "./sorted-map.ts";

/** What is known about one live node. */
export type NodeFacts = {
  readonly name: string;
  /** The pool that its label names; a node without the label is in no pool. */
  readonly pool: string | undefined;
  readonly ready: boolean;
  readonly schedulable: boolean;
  /** Owners of the exclusive pods that are on the node. */
  readonly occupants: readonly Owner[];
};

/** Each live node of a pool is exactly one of free, held, leaving and unusable. */
export type PoolState = {
  readonly name: string;
  /** Names of the nodes that can be granted now. */
  readonly free: SortedMap<string, true>;
  /** Usable nodes that the ledger has granted. */
  readonly held: number;
  /** Released nodes on which the pods of the last holder are still seen. They come back without help, so they make no request impossible. */
  readonly leaving: number;
  /** Not ready, cordoned, or occupied by somebody else; held or not. */
  readonly unusable: number;
};

/** The live nodes and who holds them, kept in step with the ledger. Never changed: each change gives a new one. */
export type Machines = {
  readonly nodes: SortedMap<string, MachineRecord>;
  /** Only pools that have a live node. */
  readonly pools: SortedMap<string, PoolState>;
};

/** A node is known while it lives or is held; a held node that is lost stays its holder's until it is released. */
type MachineRecord = {
  readonly facts?: NodeFacts;
  readonly holder?: Owner;
  /** The last holder, as long as its pods are seen on the node. */
  readonly lastHolder?: Owner;
};

type Standing = "free" | "held" | "leaving" | "unusable";

const noMachines: Machines = { nodes: SortedMap.empty(compareText), pools: SortedMap.empty(compareText) };

/** The machines as the nodes and the ledger say, whatever the order of the nodes. */
export function buildMachines(nodes: Iterable<NodeFacts>, ledger: Ledger): Machines {
  let machines = noMachines;
  for (const facts of nodes) machines = replaceRecord(machines, facts.name, { facts });
  for (const [node, sequence] of ledger.holders.entries())
    machines = withHolder(machines, node, knownReservation(ledger, sequence).owner);
  return machines;
}

/** Machines that are usable, held or not. */
export function capacityOf(pool: PoolState): number {
  return pool.free.size + pool.held;
}

export function withNode(machines: Machines, facts: NodeFacts): Machines {
  return replaceRecord(machines, facts.name, { ...machines.nodes.get(facts.name), facts });
}

export function withoutNode(machines: Machines, name: string): Machines {
  const holder = machines.nodes.get(name)?.holder;
  return replaceRecord(machines, name, holder === undefined ? {} : { holder });
}

/** The machines after one event of the ledger; `ledger` is the one before it. */
export function withEvent(machines: Machines, ledger: Ledger, event: LedgerEvent): Machines {
  if (event.kind === "requested") return machines;
  const { owner, grant } = knownReservation(ledger, event.sequence);
  if (event.kind === "granted")
    return event.machines.reduce((after, { node }) => withHolder(after, node, owner), machines);
  return (grant?.machines ?? []).reduce((after, { node }) => withoutHolder(after, node, owner), machines);
}

function withHolder(machines: Machines, node: string, holder: Owner): Machines {
  const facts = machines.nodes.get(node)?.facts;
  return replaceRecord(machines, node, facts === undefined ? { holder } : { facts, holder });
}

function withoutHolder(machines: Machines, node: string, lastHolder: Owner): Machines {
  const facts = machines.nodes.get(node)?.facts;
  return replaceRecord(machines, node, facts === undefined ? {} : { facts, lastHolder });
}

function replaceRecord(machines: Machines, name: string, next: MachineRecord): Machines {
  const settled = forgetLastHolder(next);
  const before = machines.nodes.get(name);
  const pools = count(count(machines.pools, before, -1), settled, 1);
  const known = settled.facts !== undefined || settled.holder !== undefined;
  return { nodes: known ? machines.nodes.set(name, settled) : machines.nodes.delete(name), pools };
}

function forgetLastHolder(record: MachineRecord): MachineRecord {
  const { lastHolder, ...rest } = record;
  if (lastHolder === undefined || record.facts?.occupants.some((owner) => sameOwner(owner, lastHolder)) === true)
    return record;
  return rest;
}

function count(pools: Machines["pools"], record: MachineRecord | undefined, change: 1 | -1): Machines["pools"] {
  const facts = record?.facts;
  if (record === undefined || facts?.pool === undefined) return pools;
  const before = pools.get(facts.pool) ?? emptyPool(facts.pool);
  const after = countNode(before, facts.name, standingOf(facts, record), change);
  const live = capacityOf(after) + after.leaving + after.unusable;
  return live === 0 ? pools.delete(facts.pool) : pools.set(facts.pool, after);
}

function countNode(pool: PoolState, node: string, standing: Standing, change: 1 | -1): PoolState {
  if (standing !== "free") return { ...pool, [standing]: pool[standing] + change };
  return { ...pool, free: change === 1 ? pool.free.set(node, true) : pool.free.delete(node) };
}

function emptyPool(name: string): PoolState {
  return { name, free: SortedMap.empty(compareText), held: 0, leaving: 0, unusable: 0 };
}

function standingOf(facts: NodeFacts, { holder, lastHolder }: MachineRecord): Standing {
  if (!facts.ready || !facts.schedulable) return "unusable";
  if (holder !== undefined) return facts.occupants.every((owner) => sameOwner(owner, holder)) ? "held" : "unusable";
  if (facts.occupants.length === 0) return "free";
  const isLeaving = lastHolder !== undefined && facts.occupants.every((owner) => sameOwner(owner, lastHolder));
  return isLeaving ? "leaving" : "unusable";
}
