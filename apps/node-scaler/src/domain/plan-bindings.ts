import type { Amounts } from "@muster/resources";
import { decideBoot, type BootConditions, type BootVerdict } from "./decide-boot.ts";
import type { Demand } from "./demand.ts";
import { phaseRank, suits, volumeFor, type ComputedNode, type FreeMachine, type Pool } from "./fit.ts";
import { indexFreeMachines, type FreeMachines } from "./free-machines.ts";
import { indexFreeNodes, type FreeNodes } from "./free-nodes.ts";
import type { NewNode, NodeSpec } from "./node.ts";
import { NO_ROOMS, openSharedRooms, type SharedRooms } from "./shared-rooms.ts";

/** Demands that get their nodes together or not at all, in their order. */
export type Group = { readonly name: string; readonly demands: readonly [Demand, ...Demand[]] };

/** Why a demand can get no node now. */
type Lack = {
  readonly code: "POOL_MAX" | "UNAVAILABLE" | "TOO_LARGE";
  readonly demand: Demand;
  readonly because: string;
};

/** What a group gets. With a lack it gets nothing, and holds nothing. */
export type GroupPlan = {
  readonly group: Group;
  /** Demands and the free or kept nodes and machines for them; demands for parts may have the same. */
  readonly bound: ReadonlyMap<string, ComputedNode | FreeMachine>;
  readonly boots: readonly NewNode[];
  /** Demands for parts of new nodes that are made for other demands, of this group or of one before it. */
  readonly joins: ReadonlyMap<string, NewNode>;
  readonly lacks: readonly Lack[];
};

type BindingWorld = {
  /** In the order in which they are served. */
  readonly groups: readonly Group[];
  /** Usable ones, in the order of `compareNodes`. */
  readonly nodes: readonly ComputedNode[];
  readonly machines: readonly FreeMachine[];
  /** Nodes and machines that can be granted in parts only. */
  readonly parts: readonly FreeMachine[];
  readonly pools: ReadonlyMap<string, Pool>;
  readonly conditions: BootConditions;
};

type BindingPlan = {
  /** In the order of the groups. */
  readonly plans: readonly GroupPlan[];
  /** What is left for others. */
  readonly round: Round;
};

/** Limit of attempts in one round. */
const MAX_ATTEMPTS = 20;

/**
 * Which node each demand gets: the one that is bound to it already, a machine that was not made for it, a free node, or a new one.
 *
 * A group that cannot be completed releases what it holds, and everything is planned again, so that a second round with the same snapshot changes nothing.
 * Before the last attempt every group that holds only a part of its nodes releases it.
 */
export function planBindings(world: BindingWorld): BindingPlan {
  const verdicts = rememberVerdicts(world);
  const released = new Set<string>();
  for (let attempt = 1; ; attempt += 1) {
    const round = startRound(world, released, verdicts);
    const plans = world.groups.map((group) => planGroup(group, round));
    const holders = plans.filter(({ group }) => group.demands.some(({ name }) => round.kept.has(name)));
    const failed = holders.filter(({ lacks }) => lacks.length > 0);
    if (failed.length === 0) return { plans, round };
    const inPart = holders.filter(({ group }) => !group.demands.every(({ name }) => round.kept.has(name)));
    for (const { group } of attempt < MAX_ATTEMPTS ? failed : inPart) released.add(group.name);
  }
}

/** What there is to be given, and what is left of it while groups are served. */
export type Round = {
  readonly pools: ReadonlyMap<string, Pool>;
  readonly kept: ReadonlyMap<string, ComputedNode>;
  readonly nodes: FreeNodes;
  readonly machines: FreeMachines;
  /** All of the above, and nodes of this round, for demands for parts. */
  readonly rooms: SharedRooms;
  /** How many nodes may still be made of each pool. */
  readonly headroom: Map<string, number>;
  readonly verdictOn: (demand: Demand, pool: Pool) => BootVerdict;
};

function startRound(world: BindingWorld, released: ReadonlySet<string>, verdictOn: Round["verdictOn"]): Round {
  const { nodes, machines, pools } = world;
  const kept = keepBindings(world, released);
  const held = new Set(kept.values());
  const left = nodes.filter((node) => !held.has(node));
  return {
    pools,
    kept,
    nodes: indexFreeNodes(left, pools),
    machines: indexFreeMachines(machines),
    rooms: openRooms(world, left),
    headroom: new Map([...pools].map(([name, { policy, records }]) => [name, Math.max(0, policy.max - records)])),
    verdictOn,
  };
}

function openRooms({ groups, machines, parts, pools }: BindingWorld, nodes: readonly ComputedNode[]): SharedRooms {
  const resources = new Set(
    groups.flatMap(({ demands }) => demands.flatMap(({ shared }) => [...(shared?.keys() ?? [])])),
  );
  const isNeeded = groups.some(({ demands }) => demands.some(({ shared }) => shared !== undefined));
  return isNeeded ? openSharedRooms({ pools, nodes, machines: [...machines, ...parts], resources }) : NO_ROOMS;
}

/** Of two nodes that are bound to one demand the first stays, which is the better one. Demands for parts are placed again in each round. */
function keepBindings(
  { groups, nodes, pools }: BindingWorld,
  released: ReadonlySet<string>,
): ReadonlyMap<string, ComputedNode> {
  const demands = new Map(
    groups.flatMap(({ name, demands }) =>
      released.has(name)
        ? []
        : demands.flatMap((demand) => (demand.shared === undefined ? [[demand.name, demand] as const] : [])),
    ),
  );
  const kept = new Map<string, ComputedNode>();
  for (const node of nodes) {
    const demand = node.status.boundTo === undefined ? undefined : demands.get(node.status.boundTo);
    const pool = demand && pools.get(demand.pool);
    if (demand === undefined || pool === undefined || kept.has(demand.name)) continue;
    if (suits(node, demand, pool)) kept.set(demand.name, node);
  }
  return kept;
}

/** Takes what the group gets from the round, or nothing. */
export function planGroup(group: Group, round: Round): GroupPlan {
  const before = markOf(round);
  const bound = new Map<string, ComputedNode | FreeMachine>();
  const joins = new Map<string, NewNode>();
  const boots: NewNode[] = [];
  const lacks: Lack[] = [];
  for (const demand of group.demands) {
    const got = planDemand(demand, round, { bound, boots });
    if ("lack" in got) lacks.push(got.lack);
    else if ("boot" in got) boots.push(got.boot);
    else if ("joined" in got) joins.set(demand.name, got.joined);
    else bound.set(demand.name, got.node);
  }
  if (lacks.length === 0) return { group, bound, boots, joins, lacks };
  rewind(round, before);
  for (const { spec } of boots) round.headroom.set(spec.pool, (round.headroom.get(spec.pool) ?? 0) + 1);
  return { group, bound: new Map(), boots: [], joins: new Map(), lacks };
}

type Mark = { readonly nodes: number; readonly machines: number; readonly rooms: number };

/** What has been taken so far. */
export function markOf({ nodes, machines, rooms }: Round): Mark {
  return { nodes: nodes.taken(), machines: machines.taken(), rooms: rooms.taken() };
}

/** Puts back what was taken since. */
export function rewind({ nodes, machines, rooms }: Round, before: Mark): void {
  nodes.rewind(before.nodes);
  machines.rewind(before.machines);
  rooms.rewind(before.rooms);
}

type Got =
  | { readonly node: ComputedNode | FreeMachine }
  | { readonly boot: NewNode }
  | { readonly joined: NewNode }
  | { readonly lack: Lack };

function planDemand(demand: Demand, round: Round, own: Pick<GroupPlan, "bound" | "boots">): Got {
  const pool = round.pools.get(demand.pool);
  if (pool === undefined) throw new Error(`demand ${demand.name} is for pool ${demand.pool}, which is not given`);
  const { shared } = demand;
  const found = shared === undefined ? takeWhole(demand, round) : takePart(demand.pool, shared, round);
  if (found !== undefined) return found;
  const boot = round.verdictOn(demand, pool);
  if (boot.kind === "wait") return { lack: { code: boot.code, demand, because: boot.because } };
  const headroom = round.headroom.get(demand.pool) ?? 0;
  if (headroom === 0) {
    return { lack: { code: "POOL_MAX", demand, because: describeFull(pool, own) } };
  }
  round.headroom.set(demand.pool, headroom - 1);
  const { kind: _, ...instance } = boot;
  const made = { boundTo: demand.name, spec: buildSpec(demand, pool, instance) };
  if (shared !== undefined) round.rooms.open(made, shared);
  return { boot: made };
}

function takeWhole(demand: Demand, { kept, machines, nodes, rooms }: Round): Got | undefined {
  const own = kept.get(demand.name);
  if (own !== undefined) return { node: own };
  const node = machines.take(demand) ?? nodes.take(demand);
  if (node === undefined) return undefined;
  rooms.close(node);
  return { node };
}

/** A node with a taken part cannot be taken as a whole. */
function takePart(pool: string, requests: Amounts, { machines, nodes, rooms }: Round): Got | undefined {
  const node = rooms.take(pool, requests);
  if (node === undefined) return undefined;
  if ("boundTo" in node) return { joined: node };
  if ("status" in node) nodes.withhold(node);
  else machines.withhold(node);
  return { node };
}

/** How full the pool is, and for whom: of what is on its way the group that lacks a node gets only its own. */
function describeFull(
  { policy: { name, max }, records, ending, booting, shared, foreign }: Pool,
  { bound, boots }: Pick<GroupPlan, "bound" | "boots">,
): string {
  const isOwn = (node: ComputedNode | FreeMachine): boolean =>
    "status" in node && node.spec.pool === name && phaseRank(node) > 0;
  const forOthers = booting - [...new Set(bound.values())].filter(isOwn).length;
  const promised = Math.max(0, max - records) - boots.filter(({ spec }) => spec.pool === name).length;
  const [[first], [firstForeign]] = [shared, foreign];
  const parts = [
    `pool ${name} has ${records} nodes of ${max} at most`,
    ...(ending > 0 ? [`${ending} of them to end`] : []),
    ...(forOthers > 0 ? [`${forOthers} of them booting for other work`] : []),
    ...(promised > 0 ? [`${promised} more about to boot for other work`] : []),
    ...(first === undefined
      ? []
      : [`${shared.length} of them with pods that the ledger does not count: ${describeShared(first)}`]),
    ...(firstForeign === undefined
      ? []
      : [`${foreign.length} of them with foreign pods: ${describeShared(firstForeign)}`]),
  ];
  return parts.join(", ");
}

/** Names a node and the pods that it is shared with. */
export function describeShared({ name, sharedWith = "" }: ComputedNode | FreeMachine): string {
  return `${name} has ${sharedWith}`;
}

function buildSpec(demand: Demand, pool: Pool, instance: Pick<NodeSpec, "instanceType" | "spot" | "zone">): NodeSpec {
  const { gpus, privateIpOnly } = demand;
  return {
    ...instance,
    pool: demand.pool,
    provider: pool.policy.provider,
    bootImage: pool.bootImage ?? "",
    gpus,
    volumeGib: volumeFor(demand, pool),
    privateIpOnly,
    terminate: undefined,
  };
}

/** Many demands ask for the same; what is short does not change within a round. */
function rememberVerdicts({ conditions }: BindingWorld): Round["verdictOn"] {
  const known = new Map<string, BootVerdict>();
  return (demand, pool) => {
    const key = `${demand.pool}\n${demand.spot}\n${demand.zone ?? ""}\n${demand.instanceTypes.join("\n")}`;
    const verdict = known.get(key) ?? decideBoot(demand, pool, conditions);
    known.set(key, verdict);
    return verdict;
  };
}
