import { knownReservation, type Ledger, type LedgerEvent } from "./ledger.ts";
import { mayOccupy, type Owner } from "@muster/names";
import { compareText, SortedMap } from "./sorted-map.ts";

/** What is known about one live node. */
export type NodeFacts = {
  readonly name: string;
  /** The pool that its label names; a node without the label is in no pool. */
  readonly pool: string | undefined;
  readonly ready: boolean;
  readonly schedulable: boolean;
  /** Cordoned, whatever its taints are. */
  readonly cordoned: boolean;
  /** Owners of the exclusive pods that are on the node. */
  readonly occupants: readonly Owner[];
};

/** How the node scaler scales a pool. */
export type PoolScaling = {
  readonly pool: string;
  /** The most nodes that are made. */
  readonly max: number;
  /** Nodes that are needed cannot be had at present, whatever is released. */
  readonly exhausted: boolean;
};

/** Each live node of a pool is exactly one of free, held, occupied, notReady and cordoned. */
export type PoolState = {
  readonly name: string;
  /** Names of the nodes that can be granted now. */
  readonly free: SortedMap<string, true>;
  /** Nodes that the ledger has granted and that only their holder occupies. */
  readonly held: number;
  /**
   * Ready and schedulable, but with exclusive pods of an owner who does not hold the node, such as the last holder's after its release. Those end, so they
   * make no request impossible.
   */
  readonly occupied: number;
  /** The kubelet does not say Ready; held or not. */
  readonly notReady: number;
  /** Ready, but cordoned or tainted; held or not. */
  readonly cordoned: number;
  /** Undefined: the pool has the nodes that it has. */
  readonly scaling: PoolScaling | undefined;
};

/** The live nodes and who holds them, kept in step with the ledger. Never changed: each change gives a new one. */
export type Machines = {
  /** Every live node is known. False: there may be more pools and more machines than these, so nothing is impossible for want of them. */
  readonly complete: boolean;
  readonly nodes: SortedMap<string, MachineRecord>;
  /** Only pools that have a live node, or that are scaled. */
  readonly pools: SortedMap<string, PoolState>;
};

/** A node is known while it lives or is held; a held node that is lost stays its holder's until it is released. */
export type MachineRecord = { readonly facts?: NodeFacts; readonly holder?: Owner };

export type Standing = "free" | "held" | "occupied" | "notReady" | "cordoned";

export type UnusableReason = "NOT_READY" | "CORDONED" | "OCCUPIED";

/** A node that cannot be granted now, and the stable code for why. */
export type UnusableNode = {
  readonly node: string;
  readonly reason: UnusableReason;
  /** The first owner with a pod on the node that does not hold it; only with OCCUPIED. */
  readonly occupant: Owner | undefined;
};

/** The machines as these nodes and scaled pools, which are all there are, and the ledger say; whatever their order. */
export function buildMachines(
  nodes: Iterable<NodeFacts>,
  ledger: Ledger,
  scalings: Iterable<PoolScaling> = [],
): Machines {
  let machines: Machines = { complete: true, nodes: SortedMap.empty(compareText), pools: SortedMap.empty(compareText) };
  for (const facts of nodes) machines = replaceRecord(machines, facts.name, { facts });
  for (const scaling of scalings) machines = withScaling(machines, scaling.pool, scaling);
  for (const [node, sequence] of ledger.holders.entries())
    machines = withHolder(machines, node, knownReservation(ledger, sequence).owner);
  return machines;
}

/** Machines that are usable, held or not. */
export function capacityOf(pool: PoolState): number {
  return pool.free.size + pool.held;
}

/** The most machines that a request can get of the nodes that there are, once everything else is released. */
export function largestOf(pool: PoolState): number {
  return capacityOf(pool) + pool.occupied;
}

/** The most machines that a request can ever get, as the nodes and the scaling are now: a larger one is impossible. */
export function maxOf(pool: PoolState): number {
  return Math.max(largestOf(pool), pool.scaling?.max ?? 0);
}

/** The most machines that a request can get by waiting now: nodes that cannot be had at present are not waited for with free machines kept. */
export function attainableOf(pool: PoolState): number {
  return pool.scaling?.exhausted === true ? largestOf(pool) : maxOf(pool);
}

/** Nodes, granted or not, that can take no work at present; `capacityOf`, occupied and these are all nodes of the pool. */
export function brokenOf(pool: PoolState): number {
  return pool.notReady + pool.cordoned;
}

/** The nodes of one pool that cannot be granted now, in the order of their names. Visits every node. */
export function* unusableNodes(machines: Machines, pool: string): Generator<UnusableNode> {
  for (const record of machines.nodes.values()) {
    if (record.facts?.pool !== pool) continue;
    const { name: node } = record.facts;
    const standing = standingOf(record.facts, record);
    if (standing === "notReady") yield { node, reason: "NOT_READY", occupant: undefined };
    if (standing === "cordoned") yield { node, reason: "CORDONED", occupant: undefined };
    if (standing === "occupied") yield { node, reason: "OCCUPIED", occupant: foreignOccupantOf(record.facts, record) };
  }
}

/** The same machines when nothing changes. */
export function withCompleteness(machines: Machines, complete: boolean): Machines {
  return machines.complete === complete ? machines : { ...machines, complete };
}

export function withNode(machines: Machines, facts: NodeFacts): Machines {
  return replaceRecord(machines, facts.name, { ...machines.nodes.get(facts.name), facts });
}

export function withoutNode(machines: Machines, name: string): Machines {
  const holder = machines.nodes.get(name)?.holder;
  return replaceRecord(machines, name, holder === undefined ? {} : { holder });
}

/** Undefined: the pool is not scaled any more. The same machines when nothing changes: the scaler writes far more often than it changes its mind. */
export function withScaling(machines: Machines, pool: string, scaling: PoolScaling | undefined): Machines {
  const before = machines.pools.get(pool)?.scaling;
  if (before?.max === scaling?.max && before?.exhausted === scaling?.exhausted) return machines;
  return {
    ...machines,
    pools: keepPool(machines.pools, { ...(machines.pools.get(pool) ?? emptyPool(pool)), scaling }),
  };
}

/** The machines after one event of the ledger; `ledger` is the one before it. */
export function withEvent(machines: Machines, ledger: Ledger, event: LedgerEvent): Machines {
  if (event.kind === "requested" || event.kind === "limited") return machines;
  const { owner, grant } = knownReservation(ledger, event.sequence);
  if (event.kind === "granted")
    return event.machines.reduce((after, { node }) => withHolder(after, node, owner), machines);
  return (grant?.machines ?? []).reduce((after, { node }) => withoutHolder(after, node), machines);
}

function withHolder(machines: Machines, node: string, holder: Owner): Machines {
  const facts = machines.nodes.get(node)?.facts;
  return replaceRecord(machines, node, facts === undefined ? { holder } : { facts, holder });
}

function withoutHolder(machines: Machines, node: string): Machines {
  const facts = machines.nodes.get(node)?.facts;
  return replaceRecord(machines, node, facts === undefined ? {} : { facts });
}

function replaceRecord(machines: Machines, name: string, next: MachineRecord): Machines {
  const { nodes, complete } = machines;
  const pools = count(count(machines.pools, nodes.get(name), -1), next, 1);
  const known = next.facts !== undefined || next.holder !== undefined;
  return { complete, nodes: known ? nodes.set(name, next) : nodes.delete(name), pools };
}

function count(pools: Machines["pools"], record: MachineRecord | undefined, change: 1 | -1): Machines["pools"] {
  const facts = record?.facts;
  if (record === undefined || facts?.pool === undefined) return pools;
  const before = pools.get(facts.pool) ?? emptyPool(facts.pool);
  return keepPool(pools, countNode(before, facts.name, standingOf(facts, record), change));
}

/** A pool exists while it has a live node or is scaled. */
function keepPool(pools: Machines["pools"], pool: PoolState): Machines["pools"] {
  const live = largestOf(pool) + brokenOf(pool);
  return live === 0 && pool.scaling === undefined ? pools.delete(pool.name) : pools.set(pool.name, pool);
}

function countNode(pool: PoolState, node: string, standing: Standing, change: 1 | -1): PoolState {
  if (standing !== "free") return { ...pool, [standing]: pool[standing] + change };
  return { ...pool, free: change === 1 ? pool.free.set(node, true) : pool.free.delete(node) };
}

function emptyPool(name: string): PoolState {
  const counts = { held: 0, occupied: 0, notReady: 0, cordoned: 0 };
  return { name, free: SortedMap.empty(compareText), ...counts, scaling: undefined };
}

/**
 * What the node counts as. A machine is free again once its reservation is released (`decideReservationRelease`), no exclusive pod is left on its
 * node, and the node is ready and schedulable.
 */
export function standingOf(facts: NodeFacts, record: MachineRecord): Standing {
  if (!facts.ready) return "notReady";
  if (!facts.schedulable) return "cordoned";
  if (foreignOccupantOf(facts, record) !== undefined) return "occupied";
  return record.holder === undefined ? "free" : "held";
}

function foreignOccupantOf({ occupants }: NodeFacts, { holder }: MachineRecord): Owner | undefined {
  return occupants.find((owner) => holder === undefined || !mayOccupy(owner, holder));
}
