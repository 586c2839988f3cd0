import { getReservation, withoutPart, withPart, type Ledger, type LedgerEvent, type MachinePart } from "./ledger.ts";
import { canOccupy, type Owner } from "@muster/names";
import {
  acceptsNode,
  buildAmountsKey,
  computeFreeAmounts,
  canHoldMinimum,
  matchesNode,
  subtractAmounts,
  findUntolerated,
  sumUse,
  type Amounts,
  type NodeSelection,
  type Taint,
} from "@muster/resources";
import { buildViewKey, type Machine, type NodeFilter } from "./reservation.ts";
import { emptyRoom, buildFreeKey, buildPartialKey, type PartialNode, type Room } from "./room.ts";
import { compareText, SortedMap } from "./sorted-map.ts";

/** The use of a node by a group of pods. */
export type NodeUse = {
  readonly pods: number;
  readonly requests: Amounts;
  /** Names of a few of the pods, `namespace/name`. */
  readonly examples: readonly string[];
};

/** The known facts about one live node. */
export type NodeFacts = {
  readonly name: string;
  /** The pool that its label names; a node without the label is in no pool. */
  readonly pool: string | undefined;
  readonly ready: boolean;
  readonly schedulable: boolean;
  /** Cordoned, whatever its taints are. */
  readonly cordoned: boolean;
  readonly labels: Readonly<Record<string, string>>;
  /** Taints of the node with the effects NoSchedule and NoExecute. Empty while the node has its startup taint, which no need tolerates. */
  readonly taints: readonly Taint[];
  /** Owners of the exclusive pods that are on the node. */
  readonly occupants: readonly Owner[];
  /** The allocatable amounts of the unused node, less overhead. Undefined: unknown, so it is granted only as a whole. */
  readonly allocatable: Amounts | undefined;
  /** Pods that are neither Muster's nor overhead. */
  readonly foreign: NodeUse;
  /** Muster's non-exclusive pods, by owner. The grant already counts the pods of an owner who holds a part of the node. */
  readonly ownerUses: readonly { readonly owner: Owner; readonly use: NodeUse }[];
};

/** Scaling of a pool by the node scaler. */
export type PoolScaling = {
  readonly pool: string;
  /** Maximum number of nodes. */
  readonly max: number;
  /** The provider has no capacity for more nodes, so releases do not help. */
  readonly exhausted: boolean;
};

/** Each live node of a pool is exactly one of free, held, shared, foreign, occupied, notReady and cordoned. */
export type PoolState = Room & {
  readonly name: string;
  /** Nodes that the ledger has granted as a whole and that only their holder occupies. */
  readonly held: number;
  /** Nodes with granted parts, with or without foreign use. */
  readonly shared: number;
  /** Nodes that would be free without their foreign pods. */
  readonly foreign: number;
  /**
   * Ready and schedulable, but with exclusive pods of an owner who does not hold the node, such as the last holder's after its release. Such pods end, so they
   * make no request impossible.
   */
  readonly occupied: number;
  /** Nodes that are not Ready, held or not. */
  readonly notReady: number;
  /** Ready, but cordoned or tainted; held or not. */
  readonly cordoned: number;
  /** Ready and schedulable nodes without foreign pods, used or not. */
  readonly withoutForeign: number;
  /** Ready and schedulable nodes, used or not, by their allocatable amounts and the use of their foreign pods. */
  readonly sizes: SortedMap<string, EqualNodes>;
  /** Undefined: the pool is not scaled. */
  readonly scaling: PoolScaling | undefined;
};

/** Nodes with equal sizes when nothing is granted. */
export type EqualNodes = {
  /** Undefined: not known. */
  readonly allocatable: Amounts | undefined;
  /** The part of `allocatable` that foreign pods leave free. */
  readonly potential: Amounts;
  readonly hasForeignUse: boolean;
  readonly nodes: number;
};

/** The live nodes and their holders, in step with the ledger. Immutable: each change returns a new value. */
export type Machines = {
  /** True if every live node is known. Otherwise more pools and machines may exist, so no request is refused as impossible. */
  readonly complete: boolean;
  readonly nodes: SortedMap<string, MachineRecord>;
  /** Only pools that have a live node, or that are scaled. */
  readonly pools: SortedMap<string, PoolState>;
  /** A new object after each change of the nodes, their foreign pods or the scaling of pools. Grants and owners' pods keep it. */
  readonly sizesMark: object;
};

/** A record exists while its node exists or is held; a missing node belongs to its holder until the release. */
export type MachineRecord = {
  readonly facts?: NodeFacts;
  readonly holder?: Owner;
  /** Granted parts of the machine; absent: none. Never set beside a `holder`. */
  readonly parts?: readonly HeldPart[];
};

export type HeldPart = MachinePart & { readonly owner: Owner };

export type Standing = "free" | "held" | "shared" | "foreign" | "occupied" | "notReady" | "cordoned";

export type UnusableReason = "NOT_READY" | "CORDONED" | "OCCUPIED" | "FOREIGN_USE";

/** A node without a holder that cannot be granted as a whole now, with the stable code of the reason. */
export type UnusableNode = {
  readonly node: string;
  readonly reason: UnusableReason;
  /** The first owner with a pod on the node that does not hold it; only with OCCUPIED. */
  readonly occupant: Owner | undefined;
  /** The pods that the ledger does not know; only with FOREIGN_USE. */
  readonly foreign: NodeUse | undefined;
  /** Only with CORDONED. */
  readonly cordoned?: boolean;
  /** Taints that the need does not tolerate; only with CORDONED. */
  readonly taints?: readonly Taint[];
};

/** Builds the machines from all live nodes, all scaled pools and the ledger, in any order. */
export function buildMachines(
  nodes: Iterable<NodeFacts>,
  ledger: Ledger,
  scalings: Iterable<PoolScaling> = [],
): Machines {
  let machines: Machines = {
    complete: true,
    nodes: SortedMap.empty(compareText),
    pools: SortedMap.empty(compareText),
    sizesMark: {},
  };
  for (const facts of nodes) machines = replaceRecord(machines, facts.name, { facts });
  for (const scaling of scalings) machines = withScaling(machines, scaling.pool, scaling);
  for (const [node, sequence] of ledger.holders.entries())
    machines = withHolder(machines, node, getReservation(ledger, sequence).owner);
  for (const [node, parts] of ledger.parts.entries())
    for (const part of parts)
      machines = withHeldPart(machines, node, { ...part, owner: getReservation(ledger, part.sequence).owner });
  return machines;
}

/** Counts usable machines, held or not. */
export function countCapacity(pool: PoolState): number {
  return pool.free.size + pool.held + pool.shared;
}

/** Maximum number of existing machines that a request can get after all other grants are released. */
export function countLargest(pool: PoolState): number {
  return countCapacity(pool) + pool.occupied + pool.foreign;
}

/** Maximum number of machines that a request can ever get with the current nodes and scaling: a larger request is impossible. */
export function countMaxMachines(pool: PoolState): number {
  return Math.max(countLargest(pool), pool.scaling?.max ?? 0);
}

/**
 * Maximum number of whole machines that a waiting request can get now. Foreign pods may stay forever, and no machine is kept in expectation of nodes that the
 * provider cannot supply.
 */
export function countAttainableMachines(pool: PoolState): number {
  const present = pool.withoutForeign;
  if (pool.scaling === undefined || pool.scaling.exhausted) return present;
  return Math.max(present, pool.scaling.max - (countLargest(pool) - present));
}

/** Nodes of the pool whose allocatable amounts are unknown. */
export function countUnsizedMachines(pool: PoolState): number {
  let count = 0;
  for (const { allocatable, nodes } of pool.sizes.values()) if (allocatable === undefined) count += nodes;
  return count;
}

/** Counts nodes, granted or not, that can take no work now. `countLargest` plus this count is the number of nodes of the pool. */
export function countUnusable(pool: PoolState): number {
  return pool.notReady + pool.cordoned;
}

/**
 * Yields the nodes of one pool that have no holder and cannot be granted as a whole now, by name. With a selection: only nodes that it accepts. Visits every
 * node.
 */
export function* findUnusable(machines: Machines, pool: string, selection?: NodeSelection): Generator<UnusableNode> {
  for (const record of machines.nodes.values()) {
    if (record.facts?.pool !== pool) continue;
    const facts = selection === undefined ? record.facts : selectNodeFacts(record.facts, selection);
    if (facts === undefined) continue;
    const node = { node: facts.name, occupant: undefined, foreign: undefined };
    const standing = getNodeStanding(facts, record);
    if (standing === "notReady") yield { ...node, reason: "NOT_READY" };
    if (standing === "cordoned") {
      const taints = facts.taints.filter((each) => findUntolerated([each], selection?.tolerations ?? []) !== undefined);
      yield { ...node, reason: "CORDONED", cordoned: facts.cordoned, ...(taints.length > 0 && { taints }) };
    }
    if (standing === "occupied") yield { ...node, reason: "OCCUPIED", occupant: foreignOccupantOf(facts, record) };
    if (standing === "foreign") yield { ...node, reason: "FOREIGN_USE", foreign: findUncountedUse(facts, record) };
  }
}

/** Sets whether all nodes are known; returns the same machines if nothing changes. */
export function withCompleteness(machines: Machines, complete: boolean): Machines {
  return machines.complete === complete ? machines : { ...machines, complete };
}

export function withNode(machines: Machines, facts: NodeFacts): Machines {
  return replaceRecord(machines, facts.name, { ...machines.nodes.get(facts.name), facts });
}

export function withoutNode(machines: Machines, name: string): Machines {
  return replaceRecord(machines, name, heldOf(machines.nodes.get(name)));
}

/** Sets how the pool is scaled; undefined: not scaled. Returns the same machines when nothing changes, because most writes of the scaler change nothing. */
export function withScaling(machines: Machines, pool: string, scaling: PoolScaling | undefined): Machines {
  const before = machines.pools.get(pool)?.scaling;
  if (before?.max === scaling?.max && before?.exhausted === scaling?.exhausted) return machines;
  const state = { ...(machines.pools.get(pool) ?? emptyPool(pool)), scaling };
  return { ...machines, pools: withoutEmptyPool(machines.pools.set(pool, state), pool), sizesMark: {} };
}

/** Returns the machines after one event; `ledger` is the ledger before the event. */
export function withEvent(machines: Machines, ledger: Ledger, event: LedgerEvent): Machines {
  if (event.kind !== "granted" && event.kind !== "released" && event.kind !== "requeued") return machines;
  const { sequence } = event;
  const { owner, grant } = getReservation(ledger, sequence);
  if (event.kind === "granted")
    return event.machines.reduce((after, { node, component, shared }) => {
      if (shared === undefined) return withHolder(after, node, owner);
      return withHeldPart(after, node, { sequence, component, requests: shared, owner });
    }, machines);
  return (grant?.machines ?? []).reduce((after, machine) => withoutMachine(after, machine, sequence), machines);
}

function withHolder(machines: Machines, node: string, holder: Owner): Machines {
  const facts = machines.nodes.get(node)?.facts;
  return replaceRecord(machines, node, facts === undefined ? { holder } : { facts, holder });
}

function withHeldPart(machines: Machines, node: string, part: HeldPart): Machines {
  const record = machines.nodes.get(node);
  return replaceRecord(machines, node, { ...record, parts: withPart(record?.parts ?? [], part) });
}

function withoutMachine(machines: Machines, { node, component, shared }: Machine, sequence: number): Machines {
  const record = machines.nodes.get(node);
  const facts = record?.facts === undefined ? {} : { facts: record.facts };
  const parts = shared === undefined ? [] : withoutPart(record?.parts ?? [], { sequence, component });
  return replaceRecord(machines, node, parts.length === 0 ? facts : { ...facts, parts });
}

/** The holders of a node, without facts about the node itself. */
function heldOf(record: MachineRecord | undefined): MachineRecord {
  return {
    ...(record?.holder !== undefined && { holder: record.holder }),
    ...(record?.parts !== undefined && { parts: record.parts }),
  };
}

function replaceRecord(machines: Machines, name: string, next: MachineRecord): Machines {
  const { nodes, complete } = machines;
  const before = nodes.get(name);
  const isResized = before?.facts !== next.facts;
  let pools = count(count(machines.pools, before, -1, isResized), next, 1, isResized);
  for (const pool of new Set([before?.facts?.pool, next.facts?.pool])) {
    pools = withoutEmptyPool(pools, pool);
    if (pool !== undefined) updateViews({ pool, before: machines.pools, after: pools }, { before, next, isResized });
  }
  const known = next.facts !== undefined || next.holder !== undefined || next.parts !== undefined;
  const sizesMark = isResized && !areOffersEqual(before?.facts, next.facts) ? {} : machines.sizesMark;
  return { complete, nodes: known ? nodes.set(name, next) : nodes.delete(name), pools, sizesMark };
}

/** Returns whether both facts offer equal amounts to equal needs while no part of the node is granted. */
function areOffersEqual(before: NodeFacts | undefined, after: NodeFacts | undefined): boolean {
  if (before === undefined || after === undefined) return before === after;
  return sizeKey(before) === sizeKey(after);
}

function sizeKey({ pool, ready, schedulable, cordoned, labels, taints, allocatable, foreign }: NodeFacts): string {
  const allocatableKey = allocatable === undefined ? "" : buildAmountsKey(allocatable);
  const sizes = [allocatableKey, buildAmountsKey(foreign.requests), foreign.pods];
  return JSON.stringify([pool, ready, schedulable, cordoned, labels, taints, sizes]);
}

function count(
  pools: Machines["pools"],
  record: MachineRecord | undefined,
  change: 1 | -1,
  isResized: boolean,
): Machines["pools"] {
  const facts = record?.facts;
  if (record === undefined || facts?.pool === undefined) return pools;
  const before = pools.get(facts.pool) ?? emptyPool(facts.pool);
  const sized = isResized ? countSize(before, facts, change) : before;
  return pools.set(facts.pool, countNode(sized, facts, record, change));
}

/** Views for needs with a selection or a topology, by pool. */
const partitions = new WeakMap<PoolState, Map<string, Partition>>();

/** The nodes that a selection accepts, by their value of a label. */
type Partition = {
  /** Undefined: the nodes without taints. */
  readonly selection: NodeSelection | undefined;
  /** Undefined: all nodes together, under the empty value. */
  readonly topology: string | undefined;
  /** Only values that some node has. */
  readonly states: SortedMap<string, PoolState>;
};

/** Limit of partitions of one pool. Beyond it, the least recently used partition is dropped, and rebuilt at its next use. */
const MAX_PARTITIONS = 128;

/**
 * Returns the pool as the need sees it: the nodes that its selection accepts, tolerated taints included, within its domain. Labels of future nodes are unknown.
 * They may match, so the request is not refused, but no machines are kept for it. The first call visits all nodes; later each change of a node updates the
 * views of its pool.
 */
export function findRoom(machines: Machines, { pool, selection, domain }: NodeFilter): PoolState | undefined {
  const state = machines.pools.get(pool);
  if (state === undefined || (selection === undefined && domain === undefined)) return state;
  return partitionOf(machines, state, selection, domain?.key).get(domain?.value ?? "") ?? emptyView(state);
}

/** The domains of a topology: the pool's nodes by each value of the label. */
export function getDomains(machines: Machines, { pool, selection }: NodeFilter, topology: string): Partition["states"] {
  const state = machines.pools.get(pool);
  return state === undefined ? SortedMap.empty(compareText) : partitionOf(machines, state, selection, topology);
}

function partitionOf(
  machines: Machines,
  state: PoolState,
  selection: NodeSelection | undefined,
  topology: string | undefined,
): Partition["states"] {
  const known = partitions.get(state) ?? new Map<string, Partition>();
  partitions.set(state, known);
  const key = `${buildViewKey({ pool: state.name, ...(selection && { selection }) })}!${topology ?? ""}`;
  const same = known.get(key);
  if (same !== undefined) {
    known.delete(key);
    known.set(key, same);
    return same.states;
  }
  let partition: Partition = { selection, topology, states: SortedMap.empty(compareText) };
  for (const record of machines.nodes.values())
    if (record.facts?.pool === state.name) partition = countSeen(state, partition, record, 1, true);
  const [oldest] = known.keys();
  if (known.size >= MAX_PARTITIONS && oldest !== undefined) known.delete(oldest);
  known.set(key, partition);
  return partition.states;
}

function emptyView({ name, scaling }: PoolState): PoolState {
  return { ...emptyPool(name), scaling: scaling && { ...scaling, exhausted: true } };
}

/** The facts about the node for a pod of the selection; undefined: the pod does not accept the node. */
export function selectNodeFacts(facts: NodeFacts, selection: NodeSelection | undefined): NodeFacts | undefined {
  if (selection === undefined) return facts;
  if (!matchesNode(selection, facts) || !canHoldMinimum(selection, facts.allocatable)) return undefined;
  return acceptsNode(selection, facts) ? withTaintsTolerated(facts) : facts;
}

/** The facts about the node for pods that tolerate its taints. */
export function withTaintsTolerated(facts: NodeFacts): NodeFacts {
  const { schedulable, cordoned, taints } = facts;
  return schedulable || cordoned || taints.length === 0 ? facts : { ...facts, schedulable: true };
}

function countSeen(
  pool: PoolState,
  partition: Partition,
  record: MachineRecord | undefined,
  change: 1 | -1,
  isResized: boolean,
): Partition {
  const { selection, states } = partition;
  const facts = record?.facts && selectNodeFacts(record.facts, selection);
  const value = facts && domainOf(facts, partition);
  if (record === undefined || facts === undefined || value === undefined) return partition;
  const before = states.get(value) ?? emptyView(pool);
  const after = countNode(isResized ? countSize(before, facts, change) : before, facts, record, change);
  return { ...partition, states: states.set(value, after) };
}

/** Returns the node's domain; undefined: it is in none. A label without a value names no domain. */
function domainOf({ labels }: NodeFacts, { topology }: Partition): string | undefined {
  return topology === undefined ? "" : labels[topology] || undefined;
}

/** Drops the record's domain from the partition if the domain has no more nodes. */
function withoutEmptyDomain(partition: Partition, record: MachineRecord | undefined): Partition {
  const value = record?.facts && domainOf(record.facts, partition);
  const state = value === undefined ? undefined : partition.states.get(value);
  if (value === undefined || state === undefined || countLargest(state) + countUnusable(state) > 0) return partition;
  return { ...partition, states: partition.states.delete(value) };
}

/** Carries the views of the old pool over to the new one with the same change of the node. */
function updateViews(
  { pool, ...pools }: { readonly pool: string; readonly before: Machines["pools"]; readonly after: Machines["pools"] },
  change: { readonly before: MachineRecord | undefined; readonly next: MachineRecord; readonly isResized: boolean },
): void {
  const [old, state] = [pools.before.get(pool), pools.after.get(pool)];
  const known = old && partitions.get(old);
  if (known === undefined || state === undefined || state === old) return;
  const { before, next, isResized } = change;
  const updated = [...known].map(([key, partition]): [string, Partition] => {
    const inPool = (record: MachineRecord | undefined) => (record?.facts?.pool === pool ? record : undefined);
    const without = countSeen(state, partition, inPool(before), -1, isResized);
    // Only now, so that the node of a domain of one node may change its standing and keep its size.
    const changed = countSeen(state, without, inPool(next), 1, isResized);
    return [key, [before, next].reduce(withoutEmptyDomain, changed)];
  });
  partitions.set(state, new Map(updated));
}

/** A pool exists while it has a live node or is scaled. */
function withoutEmptyPool(pools: Machines["pools"], name: string | undefined): Machines["pools"] {
  const pool = name === undefined ? undefined : pools.get(name);
  if (pool === undefined || pool.scaling !== undefined || countLargest(pool) + countUnusable(pool) > 0) return pools;
  return pools.delete(pool.name);
}

function countNode(pool: PoolState, facts: NodeFacts, record: MachineRecord, change: 1 | -1): PoolState {
  const standing = getNodeStanding(facts, record);
  const { name, allocatable } = facts;
  if (standing === "free") {
    const key = buildFreeKey(name, allocatable);
    return { ...pool, free: change === 1 ? pool.free.set(key, allocatable) : pool.free.delete(key) };
  }
  const partial = findPartialNode(facts, record, standing);
  const counted = { ...pool, [standing]: pool[standing] + change };
  if (partial === undefined) return counted;
  const key = buildPartialKey(name, partial);
  return { ...counted, partial: change === 1 ? pool.partial.set(key, partial) : pool.partial.delete(key) };
}

function countSize(pool: PoolState, facts: NodeFacts, change: 1 | -1): PoolState {
  if (!facts.ready || !facts.schedulable) return pool;
  const { allocatable } = facts;
  const hasForeignUse = facts.foreign.pods > 0;
  const potential = potentialOf(facts);
  const key = `${allocatable === undefined ? "" : buildAmountsKey(allocatable)} ${hasForeignUse ? buildAmountsKey(potential) : ""}`;
  const nodes = (pool.sizes.get(key)?.nodes ?? 0) + change;
  const sizes =
    nodes === 0 ? pool.sizes.delete(key) : pool.sizes.set(key, { allocatable, potential, hasForeignUse, nodes });
  return { ...pool, sizes, withoutForeign: pool.withoutForeign + (hasForeignUse ? 0 : change) };
}

/** The amounts that can be granted in parts while nothing is granted on the node. */
function potentialOf({ allocatable = NOTHING, foreign }: NodeFacts): Amounts {
  if (foreign.pods === 0) return allocatable;
  return computeFreeAmounts({ allocatable, overhead: NOTHING, uses: [sumUse(foreign.requests, foreign.pods)] });
}

function emptyPool(name: string): PoolState {
  const counts = { held: 0, shared: 0, foreign: 0, occupied: 0, notReady: 0, cordoned: 0 };
  return { name, ...emptyRoom, ...counts, withoutForeign: 0, sizes: SortedMap.empty(compareText), scaling: undefined };
}

/**
 * Returns the node's standing. A machine is free again once its reservation is released (`decideReservationRelease`), its node has no exclusive pod, and the
 * node is ready and schedulable.
 */
export function getNodeStanding(facts: NodeFacts, record: MachineRecord): Standing {
  if (!facts.ready) return "notReady";
  if (!facts.schedulable) return "cordoned";
  if (foreignOccupantOf(facts, record) !== undefined) return "occupied";
  if (record.holder !== undefined) return "held";
  if (record.parts !== undefined) return "shared";
  return findUncountedUse(facts, record) === undefined ? "free" : "foreign";
}

/** Returns the node in the form that rooms list for grants in parts. Undefined: no part of the node may be granted, even if amounts are free. */
export function findPartialNode(facts: NodeFacts, record: MachineRecord, standing: Standing): PartialNode | undefined {
  const { allocatable } = facts;
  if (allocatable === undefined || (standing !== "shared" && standing !== "foreign")) return undefined;
  const uncounted = findUncountedUse(facts, record);
  const uses = (record.parts ?? []).map(({ requests }) => sumUse(requests));
  if (uncounted !== undefined) uses.push(sumUse(uncounted.requests, uncounted.pods));
  if (isExceeded(allocatable, uses)) return undefined;
  const free = computeFreeAmounts({ allocatable, overhead: NOTHING, uses });
  return { free, allocatable, potential: potentialOf(facts), hasForeignUse: facts.foreign.pods > 0 };
}

/** Returns whether the uses exceed a resource of the node, for example after the node shrank. Such a node gets no further part. */
function isExceeded(allocatable: Amounts, uses: readonly Amounts[]): boolean {
  return [...allocatable].some(
    ([resource, amount]) => uses.reduce((sum, use) => sum + (use.get(resource) ?? 0), 0) > amount,
  );
}

const NOTHING: Amounts = new Map();

/**
 * Returns the use of the node that no grant counts: foreign pods, pods of owners without a part of it (such as after a release), and pod requests beyond their
 * owner's parts. Undefined: none.
 */
export function findUncountedUse(
  { foreign, ownerUses }: NodeFacts,
  { holder, parts = [] }: MachineRecord,
): NodeUse | undefined {
  const uses = ownerUses.flatMap(({ owner, use }) => {
    if (holder !== undefined && canOccupy(owner, holder)) return [];
    return findUseBeyondParts(
      use,
      parts.filter((part) => canOccupy(owner, part.owner)),
    );
  });
  const [first, ...others] = [...(foreign.pods > 0 ? [foreign] : []), ...uses];
  return first && others.reduce(addUse, first);
}

/** The use of an owner's pods beyond the parts that the owner holds. */
function findUseBeyondParts({ pods, requests, examples }: NodeUse, parts: readonly HeldPart[]): readonly NodeUse[] {
  const granted = parts.reduce((left, part) => subtractAmounts(left, part.requests), requests);
  const more = [...granted].filter(([, amount]) => amount > 0);
  const morePods = Math.max(0, pods - parts.length);
  return morePods === 0 && more.length === 0 ? [] : [{ pods: morePods, requests: new Map(more), examples }];
}

function addUse(a: NodeUse, b: NodeUse): NodeUse {
  const requests = new Map(a.requests);
  for (const [resource, amount] of b.requests) requests.set(resource, (requests.get(resource) ?? 0) + amount);
  return { pods: a.pods + b.pods, requests, examples: [...a.examples, ...b.examples] };
}

function foreignOccupantOf({ occupants }: NodeFacts, { holder }: MachineRecord): Owner | undefined {
  return occupants.find((owner) => holder === undefined || !canOccupy(owner, holder));
}
