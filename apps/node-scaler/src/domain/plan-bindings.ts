import type { Amounts } from "@muster/resources";
import { getDemandClass, type Acceptance } from "./acceptance.ts";
import { rememberVerdicts } from "./decide-accepted-boot.ts";
import type { BootConditions, BootVerdict } from "./decide-boot.ts";
import type { Demand } from "./demand.ts";
import { describeFull } from "./describe-full.ts";
import { canNodeServe, findVolumeGib, type ComputedNode, type FreeMachine, type Pool } from "./fit.ts";
import { indexFreeMachines, type FreeMachines } from "./free-machines.ts";
import { indexFreeNodes, type FreeNodes } from "./free-nodes.ts";
import type { NewNode, NodeSpec } from "./node.ts";
import type { SizeMismatch } from "./observe-mismatches.ts";
import { NO_ROOMS, openSharedRooms, type RoomNode, type SharedRooms } from "./shared-rooms.ts";
import { compareDomains } from "./topology.ts";

/** Demands that get their nodes together or not at all, in their order. */
export type DemandGroup = {
  readonly name: string;
  readonly demands: readonly [Demand, ...Demand[]];
  /** With a topology, the demands in each possible domain, by ascending value. They get nodes of one domain, or none. */
  readonly domains?: readonly DemandGroup["demands"][];
  /** The group with each choice of pools, the preferred one first, which equals `demands`. The group gets nodes for one choice. Absent without a choice. */
  readonly options?: readonly DemandGroup[];
};

/** Why a demand can get no node now. */
type Lack = {
  readonly code: "POOL_MAX" | "UNAVAILABLE" | "ZONE_UNKNOWN" | "TOO_LARGE" | "NODE_SELECTION" | "TOPOLOGY";
  readonly demand: Demand;
  readonly because: string;
};

/** The nodes of a group. A group with a lack gets and holds no nodes. */
export type GroupPlan = {
  /** The demands of the group with the chosen pools, and with a topology in the chosen domain. */
  readonly group: DemandGroup;
  /** Demands with the free or kept nodes and machines for them; demands for parts may share one. */
  readonly bound: ReadonlyMap<string, ComputedNode | FreeMachine>;
  readonly boots: readonly NewNode[];
  /** Demands for parts of new nodes that are created for other demands, of this group or an earlier one. */
  readonly joins: ReadonlyMap<string, NewNode>;
  readonly lacks: readonly Lack[];
};

type BindingWorld = {
  /** The groups in the order of service. */
  readonly groups: readonly DemandGroup[];
  /** Usable nodes, in the order of `compareNodes`. */
  readonly nodes: readonly ComputedNode[];
  readonly machines: readonly FreeMachine[];
  /** Nodes and machines that can be granted only in parts. */
  readonly parts: readonly FreeMachine[];
  readonly pools: ReadonlyMap<string, Pool>;
  readonly acceptance: Acceptance;
  readonly mismatches: readonly SizeMismatch[];
  readonly conditions: BootConditions;
};

type BindingPlan = {
  /** The plans in the order of the groups. */
  readonly plans: readonly GroupPlan[];
  /** The remaining supply for other groups. */
  readonly round: BindingRound;
};

/** Limits the attempts in one round. */
const MAX_ATTEMPTS = 20;

/**
 * Plans the node of each demand: its bound node, a machine that was not created for it, a free node, or a new one.
 *
 * A group releases its nodes if it cannot be completed, or if parts of a group take one of its whole nodes. Everything is then planned again, so that a second
 * round with the same snapshot changes nothing. Before the last attempt, every incomplete group releases its nodes.
 */
export function planBindings(world: BindingWorld): BindingPlan {
  const verdicts = rememberVerdicts(world);
  const released = new Set<string>();
  for (let attempt = 1; ; attempt += 1) {
    const round = startRound(world, released, verdicts);
    const plans = world.groups.map((group) => planGroup(group, round));
    const holders = plans.filter(({ group }) => group.demands.some(({ name }) => round.kept.has(name)));
    const failed = holders.filter((plan) => plan.lacks.length > 0 || isBoundNodeLost(plan, round));
    if (failed.length === 0) return { plans, round };
    const inPart = holders.filter(({ group }) => !group.demands.every(({ name }) => round.kept.has(name)));
    for (const { group } of attempt < MAX_ATTEMPTS ? failed : [...failed, ...inPart]) released.add(group.name);
  }
}

/** Whether a whole demand of the group gets another node than its present one. */
function isBoundNodeLost({ group, bound }: GroupPlan, { kept }: BindingRound): boolean {
  return group.demands.some(({ name }) => kept.has(name) && kept.get(name) !== bound.get(name));
}

/** The supply of a round, and its rest while groups are served. */
export type BindingRound = {
  readonly pools: ReadonlyMap<string, Pool>;
  readonly acceptance: Acceptance;
  readonly kept: ReadonlyMap<string, ComputedNode>;
  readonly nodes: FreeNodes;
  readonly machines: FreeMachines;
  /** All rooms of these nodes and machines, and of nodes of this round, for demands for parts. */
  readonly rooms: SharedRooms;
  /** The number of nodes of each pool that may still be created. */
  readonly headroom: Map<string, number>;
  readonly verdictOn: (demand: Demand, pool: Pool) => BootVerdict;
  /** Whether a group with a topology prefers the domain of its bound nodes. */
  readonly keepsDomains: boolean;
};

function startRound(
  world: BindingWorld,
  released: ReadonlySet<string>,
  verdictOn: BindingRound["verdictOn"],
): BindingRound {
  const { nodes, machines, pools, acceptance } = world;
  const kept = keepBindings(world, released);
  const held = new Set(kept.values());
  const left = nodes.filter((node) => !held.has(node));
  return {
    pools,
    acceptance,
    kept,
    nodes: indexFreeNodes(left, pools, acceptance),
    machines: indexFreeMachines(machines, acceptance),
    rooms: openRooms(world, left, reservedNodes(world, kept)),
    headroom: new Map([...pools].map(([name, { policy, records }]) => [name, Math.max(0, policy.max - records)])),
    verdictOn,
    keepsDomains: true,
  };
}

/** Returns nodes that are kept for whole demands of groups with parts. */
function reservedNodes({ groups }: BindingWorld, kept: ReadonlyMap<string, ComputedNode>): readonly ComputedNode[] {
  return groups.filter(hasParts).flatMap(({ demands }) => demands.flatMap(({ name }) => kept.get(name) ?? []));
}

/** Whether the group has demands for parts of nodes, which are placed again in each round. */
export function hasParts({ demands }: DemandGroup): boolean {
  return demands.some(({ shared }) => shared !== undefined);
}

function openRooms(
  { groups, machines, parts, pools, acceptance }: BindingWorld,
  nodes: readonly ComputedNode[],
  reserved: readonly ComputedNode[],
): SharedRooms {
  const resources = new Set(
    groups.flatMap(({ demands }) => demands.flatMap(({ shared }) => [...(shared?.keys() ?? [])])),
  );
  return groups.some(hasParts)
    ? openSharedRooms({ pools, nodes, reserved, machines, parts, resources, acceptance })
    : NO_ROOMS;
}

/** Keeps the first of two nodes bound to one demand, which is the better one. Demands for parts are placed again in each round. */
function keepBindings(
  { groups, nodes, pools, acceptance }: BindingWorld,
  released: ReadonlySet<string>,
): ReadonlyMap<string, ComputedNode> {
  const demands = new Map(
    groups
      .filter(({ name }) => !released.has(name))
      .flatMap((group) => (group.options ?? [group]).flatMap((option) => option.demands))
      .flatMap((demand) =>
        demand.shared === undefined ? [[keyInPool(demand.name, demand.pool), demand] as const] : [],
      ),
  );
  const kept = new Map<string, ComputedNode>();
  for (const node of nodes) {
    const { boundTo } = node.status;
    const demand = boundTo === undefined ? undefined : demands.get(keyInPool(boundTo, node.spec.pool));
    const pool = demand && pools.get(demand.pool);
    if (demand === undefined || pool === undefined || kept.has(demand.name)) continue;
    if (canNodeServe(node, demand, pool) && acceptance.accepts(demand, node)) kept.set(demand.name, node);
  }
  return kept;
}

/** Returns a key of the demand in its pool, because demands for different pools can have one name. */
function keyInPool(demand: string, pool: string): string {
  return `${demand}\n${pool}`;
}

/** Limits the attempts to find the nodes of one group. */
const MAX_GROUP_ATTEMPTS = 8;

/** Takes the group's nodes from the round, or none: with the best of its choices of pools, and with a topology in the best of its domains. */
export function planGroup(group: DemandGroup, round: BindingRound): GroupPlan {
  if (group.options === undefined) return planInDomains(group, round);
  const before = markGroup(round);
  const plans = group.options.map((option) => {
    const plan = planInDomains(option, round);
    rewindGroup(round, before);
    changeHeadroom(round, plan.boots, 1);
    return { option, rank: rankOption(plan) };
  });
  const best = plans.reduce((one, other) => (other.rank < one.rank ? other : one));
  return planInDomains(best.option, round);
}

/**
 * Ranks a choice of pools; lower is better. 0: existing or booting nodes suffice. 1: nodes were already created for the group in these pools, so that none are
 * created elsewhere. 2: its pools can grow enough. 3: it cannot be completed. Ties go to the preferred pools.
 */
function rankOption({ lacks, boots, bound, group }: GroupPlan): number {
  if (lacks.length > 0) return 3;
  if (boots.length === 0) return 0;
  const names = new Set(group.demands.map(({ name }) => name));
  return [...bound.values()].some((node) => "status" in node && names.has(node.status.boundTo ?? "")) ? 1 : 2;
}

function planInDomains(group: DemandGroup, round: BindingRound): GroupPlan {
  const { name, demands, domains } = group;
  if (domains === undefined) return planDemands(group, round);
  const before = markGroup(round);
  const plans = domains.map((inDomain) => {
    const plan = planDemands({ name, demands: inDomain, domains }, round);
    rewindGroup(round, before);
    changeHeadroom(round, plan.boots, 1);
    return plan;
  });
  const [best] = plans.sort((one, other) => compareDomains(one, other, round.keepsDomains));
  if (best !== undefined) return planDemands(best.group, round);
  const lacks = demands.map((demand): Lack => ({ code: "TOPOLOGY", demand, because: describeUnknown(demand) }));
  return { group, bound: new Map(), boots: [], joins: new Map(), lacks };
}

function describeUnknown({ topology }: Demand): string {
  return `no value of ${topology?.key ?? ""} is known that all of these nodes can have`;
}

/**
 * Takes the nodes that the demands of the group get from the round, or none.
 *
 * The ledger places parts on the smallest nodes, including those that are created for other needs of the group. So created nodes are planned again as booting
 * ones, until the group needs no further nodes.
 */
function planDemands(group: DemandGroup, round: BindingRound): GroupPlan {
  const before = markGroup(round);
  const isSimple = group.demands.length === 1 || !hasParts(group);
  let made: readonly MadeNode[] = [];
  for (let attempt = 1; ; attempt += 1) {
    const { lacks, further, ...got } = tryGroup(group, round, made);
    if (lacks.length === 0 && (isSimple || further.length === 0 || attempt === MAX_GROUP_ATTEMPTS))
      return { group, ...settle(group, round, got, [...made, ...further]), lacks };
    rewindGroup(round, before);
    changeHeadroom(round, [...made, ...further], 1);
    if (lacks.length > 0) return { group, bound: new Map(), boots: [], joins: new Map(), lacks };
    made = [...made, ...further];
  }
}

/** A new node, which gets the name of its demand after the group is planned. */
type MadeNode = { boundTo: string; readonly spec: NodeSpec };

type Attempt = {
  readonly bound: Map<string, ComputedNode | FreeMachine>;
  /** Demands with the new nodes that they get, of this group or an earlier one. */
  readonly onNew: Map<string, NewNode>;
  /** New nodes in addition to those of earlier attempts. */
  readonly further: MadeNode[];
  readonly lacks: Lack[];
};

/** Takes the nodes that the group gets if the nodes of earlier attempts start. */
function tryGroup(group: DemandGroup, round: BindingRound, made: readonly MadeNode[]): Attempt {
  const attempt: Attempt = { bound: new Map(), onNew: new Map(), further: [], lacks: [] };
  changeHeadroom(round, made, -1);
  if (hasParts(group)) for (const node of [...keptFor(group, round), ...made]) round.rooms.offer(node);
  const own: Own = { ...attempt, made, withParts: new Set(), whole: new Set() };
  const later = laterClasses(group);
  for (const [index, demand] of group.demands.entries()) {
    const got = planDemand(demand, round, own, later[index] ?? NO_CLASSES);
    if ("lack" in got) {
      attempt.lacks.push(got.lack);
      continue;
    }
    const { node } = got;
    if (isNew(node)) attempt.onNew.set(demand.name, node);
    else attempt.bound.set(demand.name, node);
    if (demand.shared === undefined) own.whole.add(node);
    else own.withParts.add(node);
  }
  return attempt;
}

/** Returns the nodes bound to the demands of the group, without nodes of pools that it does not choose. */
function keptFor({ demands }: DemandGroup, { kept }: BindingRound): readonly ComputedNode[] {
  return demands.flatMap(({ name, pool }) => {
    const node = kept.get(name);
    return node?.spec.pool === pool ? [node] : [];
  });
}

const NO_CLASSES: ReadonlySet<string> = new Set();

/** Returns for each demand of the group the other classes of later demands in its pool. */
function laterClasses({ demands }: DemandGroup): readonly ReadonlySet<string>[] {
  const [first] = demands;
  if (demands.every((demand) => getDemandClass(demand) === getDemandClass(first))) return [];
  const seen = new Map<string, ReadonlySet<string>>();
  return demands
    .toReversed()
    .map((demand) => {
      const after = seen.get(demand.pool) ?? NO_CLASSES;
      seen.set(demand.pool, new Set([...after, getDemandClass(demand)]));
      return new Set([...after].filter((name) => name !== getDemandClass(demand)));
    })
    .reverse();
}

/** Assigns each new node to the first demand on it. Drops nodes without a demand, because the ledger places all needs equally without them. */
function settle(
  group: DemandGroup,
  { rooms, headroom }: BindingRound,
  { bound, onNew }: Pick<Attempt, "bound" | "onNew">,
  made: readonly MadeNode[],
): Pick<GroupPlan, "bound" | "boots" | "joins"> {
  const firsts = new Map<NewNode, string>();
  for (const { name } of group.demands) {
    const node = onNew.get(name);
    if (node !== undefined && !firsts.has(node)) firsts.set(node, name);
  }
  const boots = made.flatMap((node) => {
    const first = firsts.get(node);
    if (first !== undefined) {
      node.boundTo = first;
      return [node];
    }
    rooms.close(node);
    headroom.set(node.spec.pool, (headroom.get(node.spec.pool) ?? 0) + 1);
    return [];
  });
  const isOwn = new Set<NewNode>(boots);
  const joins = new Map([...onNew].filter(([name, node]) => !isOwn.has(node) || node.boundTo !== name));
  return { bound, boots, joins };
}

function isNew(node: RoomNode): node is NewNode {
  return "boundTo" in node;
}

function changeHeadroom({ headroom }: BindingRound, nodes: readonly NewNode[], change: 1 | -1): void {
  for (const { spec } of nodes) headroom.set(spec.pool, (headroom.get(spec.pool) ?? 0) + change);
}

type Mark = { readonly nodes: number; readonly machines: number; readonly rooms: number };

/** Marks the supply that has been taken so far. */
export function markGroup({ nodes, machines, rooms }: BindingRound): Mark {
  return { nodes: nodes.taken(), machines: machines.taken(), rooms: rooms.taken() };
}

/** Returns all supply that was taken since the mark. */
export function rewindGroup({ nodes, machines, rooms }: BindingRound, before: Mark): void {
  nodes.rewind(before.nodes);
  machines.rewind(before.machines);
  rooms.rewind(before.rooms);
}

/** The supply that the group has taken so far. */
type Own = Attempt & {
  /** New nodes of earlier attempts. */
  readonly made: readonly MadeNode[];
  readonly withParts: Set<RoomNode>;
  readonly whole: Set<RoomNode>;
};

type Got = { readonly node: RoomNode } | { readonly lack: Lack };

function planDemand(demand: Demand, round: BindingRound, own: Own, later: ReadonlySet<string>): Got {
  const pool = round.pools.get(demand.pool);
  if (pool === undefined) throw new Error(`demand ${demand.name} is for pool ${demand.pool}, which is not given`);
  const { shared } = demand;
  const found = shared === undefined ? takeWhole(demand, pool, round, own, later) : takePart(demand, shared, round);
  if (found !== undefined) return { node: found };
  const boot = round.verdictOn(demand, pool);
  if (boot.kind === "wait") return { lack: { code: boot.code, demand, because: boot.because } };
  const headroom = round.headroom.get(demand.pool) ?? 0;
  if (headroom === 0) {
    const { bound, made, further } = own;
    return { lack: { code: "POOL_MAX", demand, because: describeFull(pool, { bound, boots: [...made, ...further] }) } };
  }
  round.headroom.set(demand.pool, headroom - 1);
  const { kind: _, ...instance } = boot;
  const node = { boundTo: demand.name, spec: buildSpec(demand, pool, instance) };
  if (shared !== undefined) round.rooms.open(node, shared);
  own.further.push(node);
  return { node };
}

/** Takes the nodes that the demand had before, unless the ledger would place parts of its group on them. */
function takeWhole(
  demand: Demand,
  pool: Pool,
  round: BindingRound,
  { made, withParts, whole }: Own,
  later: ReadonlySet<string>,
): RoomNode | undefined {
  const { kept, rooms, acceptance } = round;
  const before = kept.get(demand.name);
  const isLeft = (one: MadeNode): boolean =>
    !withParts.has(one) && !whole.has(one) && canNodeServe(one, demand, pool) && acceptance.accepts(demand, one);
  const isKept = before?.spec.pool === demand.pool && !withParts.has(before) && acceptance.accepts(demand, before);
  const node = isKept ? before : (takeExisting(demand, round, later) ?? made.find(isLeft));
  if (node !== undefined) rooms.close(node);
  return node;
}

/** Takes a node in the order of the ledger (`placeNeeds`): first nodes that no later demand of the group accepts. */
function takeExisting(
  demand: Demand,
  { machines, nodes, acceptance }: BindingRound,
  later: ReadonlySet<string>,
): ComputedNode | FreeMachine | undefined {
  for (const kinds of acceptance.kindsFor(demand, later)) {
    const node = machines.take(demand, kinds) ?? nodes.take(demand, kinds);
    if (node !== undefined) return node;
  }
  return undefined;
}

/** Takes a part of a node, which can then not be taken as a whole. */
function takePart(demand: Demand, requests: Amounts, { machines, nodes, rooms }: BindingRound): RoomNode | undefined {
  const node = rooms.take(demand, requests);
  if (node === undefined || isNew(node)) return node;
  if ("status" in node) nodes.withhold(node);
  else machines.withhold(node);
  return node;
}

function buildSpec(demand: Demand, pool: Pool, instance: Pick<NodeSpec, "instanceType" | "spot" | "zone">): NodeSpec {
  const { gpus, privateIpOnly } = demand;
  return {
    ...instance,
    pool: demand.pool,
    provider: pool.policy.provider,
    bootImage: pool.bootImage ?? "",
    gpus,
    volumeGib: findVolumeGib(demand, pool),
    privateIpOnly,
    terminate: undefined,
  };
}
