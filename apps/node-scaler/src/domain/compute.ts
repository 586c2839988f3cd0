import { getMinimum } from "@muster/resources";
import { getDemandClass, indexAcceptance, type Acceptance } from "./acceptance.ts";
import { findBlockedDemand, buildPoolFacts, type PoolFacts } from "./build-pool-facts.ts";
import { makeNodeNames } from "./build-node-names.ts";
import type { Demand, Unavailability } from "./demand.ts";
import { describeWait, type GroupWait } from "./describe-waits.ts";
import { compareNeeds } from "./compare-needs.ts";
import {
  compareDemands,
  compareNodes,
  isUsable,
  getPhaseRank,
  type ComputedNode,
  type FreeMachine,
  type Pool,
} from "./fit.ts";
import { mayHoldMinimum, buildNodeSizes, listInstanceTypes, type SeenSizes } from "./node-sizes.ts";
import type { NewNode, NodeSpec, ScaledNode } from "./node.ts";
import type { SizeMismatch } from "./observe-mismatches.ts";
import { planBindings, type DemandGroup, type GroupPlan } from "./plan-bindings.ts";
import { planRoom } from "./plan-room.ts";
import { planStandby, type StandbyPlan } from "./plan-standby.ts";
import { getIdleSinceMs, planSurplus, type StopStep } from "./plan-surplus.ts";
import { findPricePerHourMicros, type PoolPolicy } from "./pool.ts";
import { planBoots, type BootUnit } from "./ration-boots.ts";
import { indexDomains, type TopologyDomains, type ZoneCounts } from "./topology.ts";
import { buildShortages } from "./unavailability.ts";

export type ScalingLimits = {
  /** Maximum number of boots per round over all pools. */
  readonly bootsPerRound: number;
  /** The time for which spot must have been short before a demand that allows it gets an on-demand node. */
  readonly spotRequestPauseMs: number;
};

/** All facts of the scaler at one moment. The order of lists has no meaning. */
export type ScalingSnapshot = {
  /** Every record, whatever its phase. */
  readonly nodes: readonly ComputedNode[];
  /** Free machines that the scaler did not create: they take demand, and are never stopped. */
  readonly machines: readonly FreeMachine[];
  /** Nodes and machines that can be granted only in parts, with their room. */
  readonly parts: readonly FreeMachine[];
  /** The zones of unscaled pools. */
  readonly unscaledZones: ZoneCounts;
  /** The observed sizes by pool. */
  readonly sizes: ReadonlyMap<string, SeenSizes>;
  readonly demands: readonly Demand[];
  /** Nodes that were created for demands that do not accept them. */
  readonly mismatches: readonly SizeMismatch[];
  /** Policies by pool name. */
  readonly pools: ReadonlyMap<string, PoolPolicy>;
  readonly unavailable: readonly Unavailability[];
  /** The images by pool; empty if the provider has its own. A pool without an entry boots no node. */
  readonly bootImages: ReadonlyMap<string, string>;
  /** Names of the providers for which a node's volume must have the requested size. */
  readonly fixedSizeVolumes: ReadonlySet<string>;
  readonly nowMs: number;
  /** Different in every round. New nodes get it in their names, and it decides which kind boots first if not all can boot. */
  readonly seed: string;
  readonly limits: ScalingLimits;
};

export type StartStep = {
  readonly name: string;
  readonly spec: NodeSpec;
  /** Undefined if the node stands by. */
  readonly boundTo: string | undefined;
  readonly because: "DEMAND" | "STANDBY";
};

/** The change of a node's record. */
export type NodeUpdate = {
  readonly name: string;
  readonly boundTo: string | undefined;
  readonly idleSinceMs: number | undefined;
};

export type ScalingPlan = {
  readonly start: readonly StartStep[];
  /** The steps in the order in which nodes are stopped. */
  readonly stop: readonly StopStep[];
  /** Maps demands to their nodes or machines, including nodes of `start`. */
  readonly bindings: ReadonlyMap<string, string>;
  /** Only changes, sorted by name, including nodes of `stop`. */
  readonly updates: readonly NodeUpdate[];
  /** Sorted by the order of service; groups whose nodes are all ready are omitted. */
  readonly waits: readonly GroupWait[];
  readonly poolScaling: readonly PoolFacts[];
  /** Demands for which no node will be created, with the reason. */
  readonly ignored: readonly { readonly demand: string; readonly because: string }[];
};

/**
 * Decides which nodes are created, kept and ended (`BindingNodeScaler.compute`). Planning again after the plan was carried out starts and stops nothing more,
 * and binds the same. Exceptions are boots deferred by the limit of a round, and standby in a full pool. A demand that waits for room or for spot instances may
 * also take a new standby node.  The cost is that of sorting: an index on the matching fields joins nodes and demands, never a loop over all pairs.
 */
export function computeScaling(snapshot: ScalingSnapshot): ScalingPlan {
  const { limits, nowMs } = snapshot;
  const pools = buildPools(snapshot);
  const nodes = snapshot.nodes.filter(isUsable).sort(compareNodes);
  const existing = [...nodes, ...snapshot.machines, ...snapshot.parts];
  const domains = indexDomains(snapshot.demands, pools, { nodes: existing, unscaledZones: snapshot.unscaledZones });
  const acceptance = indexAcceptance(
    snapshot.demands.flatMap((demand) => [demand, ...inDomains(demand, domains)]),
    pools,
  );
  const accepted = countAccepted(existing, acceptance);
  const { groups, ignored } = buildGroups(snapshot.demands, pools, { accepted, domains });
  const conditions = {
    shortages: buildShortages(snapshot.unavailable, nowMs),
    spotRequestPauseMs: limits.spotRequestPauseMs,
    nowMs,
  };
  const { plans, round } = planBindings({
    groups,
    nodes,
    machines: snapshot.machines,
    parts: snapshot.parts,
    pools,
    acceptance,
    mismatches: snapshot.mismatches,
    conditions,
  });

  const bound = boundNodes(plans);
  const idle = nodes.filter(({ name }) => !bound.has(name));
  const isShared = ({ sharedWith }: ComputedNode): boolean => sharedWith !== undefined;
  const unbound = Map.groupBy(
    idle.filter((node) => !isShared(node)),
    ({ spec }) => spec.pool,
  );
  const surplus = [...pools].flatMap(([name, pool]) => planSurplus(pool, unbound.get(name) ?? [], nowMs));
  const stopped = new Set(surplus.map(({ name }) => name));
  const room = planRoom({ round, plans, unbound, shared: idle.filter(isShared), stopped });
  const standby = new Map(
    [...pools].map(([name, pool]) => [
      name,
      planStandby(pool, unbound.get(name) ?? [], room.headroom.get(name) ?? 0, conditions),
    ]),
  );
  const granted = planBoots(listUnits(plans, standby), limits.bootsPerRound, snapshot.seed);
  const start = buildStartSteps(snapshot, plans, standby, granted);
  const facts = { bootsPerRound: limits.bootsPerRound, nowMs };
  const started = new Set(plans.flatMap((plan) => startedBoots(plan, granted)));
  const waits = plans.flatMap((plan) => describeWait(plan, started, facts) ?? []);

  return {
    start,
    stop: [...surplus, ...room.stop, ...stopRemoved(nodes, pools)],
    bindings: buildBindings(plans, start),
    updates: planUpdates(nodes, bound, nowMs),
    waits,
    poolScaling: describePools({ pools, nodes, start, waits, standby, nowMs }),
    ignored,
  };
}

function buildPools({ nodes, pools, bootImages, fixedSizeVolumes, sizes }: ScalingSnapshot): ReadonlyMap<string, Pool> {
  const records = Map.groupBy(
    nodes.filter(({ status }) => status.phase !== "Terminated"),
    ({ spec }) => spec.pool,
  );
  const sorted = [...pools].sort(([one], [other]) => (one < other ? -1 : 1));
  return new Map(
    sorted.map(([name, policy]) => [
      name,
      {
        policy,
        fixedSizeVolumes: fixedSizeVolumes.has(policy.provider),
        bootImage: bootImages.get(name),
        records: records.get(name)?.length ?? 0,
        ending: records.get(name)?.filter(isEnding).length ?? 0,
        booting: records.get(name)?.filter(isBooting).length ?? 0,
        shared: records.get(name)?.filter((node) => isUsable(node) && node.sharedWith !== undefined) ?? [],
        foreign:
          records.get(name)?.filter((node) => !isEnding(node) && !isUsable(node) && node.sharedWith !== undefined) ??
          [],
        sizes: buildNodeSizes(policy, sizes.get(name)),
      },
    ]),
  );
}

function isEnding({ spec, status }: ScaledNode): boolean {
  return spec.terminate !== undefined || status.phase === "Terminating";
}

function isBooting(node: ScaledNode): boolean {
  return isUsable(node) && getPhaseRank(node) > 0 && node.status.boundTo !== undefined;
}

/** Restricts the demand to each domain in which its group may be. */
function inDomains(demand: Demand, { valuesFor, restrict }: TopologyDomains): readonly Demand[] {
  return (valuesFor(demand) ?? []).map((value) => restrict(demand, value));
}

/** Builds groups in the order of their first demands. `accepted` counts the nodes that a demand accepts. */
function buildGroups(
  demands: readonly Demand[],
  pools: ReadonlyMap<string, Pool>,
  { accepted, domains }: { readonly accepted: (demand: Demand) => number; readonly domains: TopologyDomains },
): { readonly groups: readonly DemandGroup[]; readonly ignored: ScalingPlan["ignored"] } {
  const groups = new Map<string, Map<number, [Demand, ...Demand[]]>>();
  const ignored: ScalingPlan["ignored"][number][] = [];
  for (const demand of demands.toSorted(compareDemands)) {
    const pool = pools.get(demand.pool);
    const { name: demandName, group: name = demandName, option } = demand;
    if (pool === undefined) {
      if (option === undefined) ignored.push({ demand: demandName, because: `pool ${demand.pool} is not scaled` });
      continue;
    }
    const options = groups.get(name) ?? new Map<number, [Demand, ...Demand[]]>();
    groups.set(name, options);
    const members = options.get(option ?? 0);
    if (members === undefined) options.set(option ?? 0, [chooseTypes(demand, pool)]);
    else members.push(chooseTypes(demand, pool));
  }
  const toGroup = (name: string, members: [Demand, ...Demand[]]): DemandGroup => {
    const demands = sortMembers(members, accepted);
    const [first, ...others] = demands;
    const values = domains.valuesFor(first);
    if (values === undefined) return { name, demands };
    const demandsIn = (value: string): [Demand, ...Demand[]] => {
      return [domains.restrict(first, value), ...others.map((demand) => domains.restrict(demand, value))];
    };
    return { name, demands, domains: values.map((value) => sortMembers(demandsIn(value), accepted)) };
  };
  const inOrder = [...groups].flatMap(([name, options]): readonly DemandGroup[] => {
    const planned = [...options].sort(([one], [other]) => one - other).map(([, members]) => toGroup(name, members));
    const [first] = planned;
    if (first === undefined) return [];
    return [planned.length === 1 ? first : { ...first, options: planned }];
  });
  return { groups: inOrder, ignored };
}

/** Sorts a group as the ledger grants it: one selection after the other, the selection with the fewest nodes first; in each, parts before whole nodes. */
function sortMembers(members: [Demand, ...Demand[]], accepted: (demand: Demand) => number): DemandGroup["demands"] {
  const firsts = new Map(members.toReversed().map((demand) => [getDemandClass(demand), demand]));
  if (firsts.size === 1) return members.sort(comparePartsFirst);
  const known = [...firsts].map(([name, demand]) => ({ name, at: members.indexOf(demand), nodes: accepted(demand) }));
  const inOrder = known.sort((one, other) => one.nodes - other.nodes || one.at - other.at);
  const ranks = new Map(inOrder.map(({ name }, rank) => [name, rank]));
  const rankOf = (demand: Demand): number => ranks.get(getDemandClass(demand)) ?? 0;
  return members.sort((one, other) => rankOf(one) - rankOf(other) || comparePartsFirst(one, other));
}

/** Counts the nodes of its pool that a demand accepts. */
function countAccepted(
  nodes: readonly (ComputedNode | FreeMachine)[],
  acceptance: Acceptance,
): (demand: Demand) => number {
  const byPool = Map.groupBy(nodes, (node) => ("spec" in node ? node.spec.pool : node.pool));
  return (demand) => (byPool.get(demand.pool) ?? []).filter((node) => acceptance.accepts(demand, node)).length;
}

/**
 * Chooses the types of a demand. A part of a node may be on a new node of any type that is large enough. The same applies to a whole node whose minimum none of
 * its own types provides.
 */
function chooseTypes(demand: Demand, { policy, sizes }: Pool): Demand {
  const { shared, selection } = demand;
  const held = demand.instanceTypes.filter((type) => mayHoldMinimum(selection, sizes.get(type)));
  if (shared === undefined && held.length === demand.instanceTypes.length) return demand;
  if (shared === undefined && held.length > 0) return { ...demand, instanceTypes: held };
  const types = listInstanceTypes(shared ?? getMinimum(selection) ?? new Map(), policy, sizes);
  return { ...demand, instanceTypes: types.map(({ name }) => name), gpus: types[0]?.gpus ?? 0 };
}

/** Orders demands with one selection: parts from the largest to the smallest, then whole nodes in the given order. */
function comparePartsFirst(one: Demand, other: Demand): number {
  if (one.shared === undefined || other.shared === undefined)
    return Number(one.shared === undefined) - Number(other.shared === undefined);
  return compareNeeds({ name: one.name, requests: one.shared }, { name: other.name, requests: other.shared });
}

/** Maps names of nodes to their demands: the demand to which a node is already bound, or else the first. */
function boundNodes(plans: readonly GroupPlan[]): ReadonlyMap<string, string> {
  const bound = new Map<string, string>();
  for (const plan of plans)
    for (const [demand, node] of plan.bound)
      if ("status" in node && (!bound.has(node.name) || node.status.boundTo === demand)) bound.set(node.name, demand);
  return bound;
}

function startedBoots(plan: GroupPlan, granted: ReadonlyMap<string, number>): readonly NewNode[] {
  return plan.boots.slice(0, granted.get(unitName(plan)) ?? 0);
}

function unitName({ group }: GroupPlan): string {
  return `group ${group.name}`;
}

function standbyUnitName(pool: string, index: number): string {
  return `standby ${index} of ${pool}`;
}

function listUnits(plans: readonly GroupPlan[], standby: ReadonlyMap<string, StandbyPlan>): readonly BootUnit[] {
  const groups = plans
    .filter(({ boots }) => boots.length > 0)
    .map((plan) => ({ name: unitName(plan), kind: buildKind(plan.boots), count: plan.boots.length }));
  const spares = [...standby].flatMap(([pool, { boots }]) =>
    boots.map((boot, index) => ({
      name: standbyUnitName(pool, index),
      kind: `standby ${buildKind([boot])}`,
      count: 1,
    })),
  );
  return [...groups, ...spares];
}

/** Returns all fields that identify a request to the provider, so that a refusal has its own kind. */
function buildKind(boots: readonly NewNode[]): string {
  const kinds = boots.map(({ spec }) => {
    const { pool, instanceType, spot, zone, gpus, volumeGib, privateIpOnly } = spec;
    return [pool, instanceType, spot, zone ?? "", gpus, volumeGib ?? "", privateIpOnly].join("\n");
  });
  return [...new Set(kinds)].sort().join("\n\n");
}

/** Completes the boots with the names and prices of their nodes. */
function buildStartSteps(
  { seed, nodes, machines, pools }: ScalingSnapshot,
  plans: readonly GroupPlan[],
  standby: ReadonlyMap<string, StandbyPlan>,
  granted: ReadonlyMap<string, number>,
): readonly StartStep[] {
  const nextName = makeNodeNames(seed, new Set([...nodes, ...machines].map(({ name }) => name)));
  const demanded = plans.flatMap((plan) => startedBoots(plan, granted));
  const spares = [...standby].flatMap(([pool, { boots }]) =>
    boots.filter((_, index) => granted.has(standbyUnitName(pool, index))),
  );
  return [...demanded, ...spares].map(({ spec, boundTo }) => ({
    name: nextName(spec.pool),
    spec: { ...spec, pricePerHourMicros: findPricePerHourMicros(pools.get(spec.pool), spec) },
    boundTo,
    because: boundTo === undefined ? "STANDBY" : "DEMAND",
  }));
}

function buildBindings(plans: readonly GroupPlan[], start: readonly StartStep[]): ReadonlyMap<string, string> {
  const started = new Map(
    start.flatMap(({ name, boundTo }) => (boundTo === undefined ? [] : [[boundTo, name] as const])),
  );
  const bindings = new Map<string, string>();
  for (const { group, bound, joins } of plans) {
    for (const { name: demand } of group.demands) {
      const node = bound.get(demand)?.name ?? started.get(joins.get(demand)?.boundTo ?? demand);
      if (node !== undefined) bindings.set(demand, node);
    }
  }
  return bindings;
}

function planUpdates(
  nodes: readonly ComputedNode[],
  bound: ReadonlyMap<string, string>,
  nowMs: number,
): readonly NodeUpdate[] {
  const updates: NodeUpdate[] = [];
  for (const node of nodes) {
    const { name, status, sharedWith } = node;
    const boundTo = bound.get(name);
    const idleSinceMs = boundTo === undefined && sharedWith === undefined ? getIdleSinceMs(node, nowMs) : undefined;
    if (boundTo !== status.boundTo || idleSinceMs !== status.idleSinceMs) updates.push({ name, boundTo, idleSinceMs });
  }
  return updates.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Stops nodes of removed pools. A held node stays until its owner releases it, and a node with pods until they have ended. */
function stopRemoved(nodes: readonly ComputedNode[], pools: ReadonlyMap<string, Pool>): readonly StopStep[] {
  return nodes
    .filter(({ spec, sharedWith }) => !pools.has(spec.pool) && sharedWith === undefined)
    .map(({ name, spec }) => ({
      name,
      because: { code: "POOL_REMOVED", message: `pool ${spec.pool} is no longer scaled` },
    }));
}

function describePools(known: {
  readonly pools: ReadonlyMap<string, Pool>;
  readonly nodes: readonly ScaledNode[];
  readonly start: readonly StartStep[];
  readonly waits: readonly GroupWait[];
  readonly standby: ReadonlyMap<string, StandbyPlan>;
  readonly nowMs: number;
}): readonly PoolFacts[] {
  const nodes = Map.groupBy(known.nodes, ({ spec }) => spec.pool);
  const started = Map.groupBy(known.start, ({ spec }) => spec.pool);
  const waits = new Map<string, GroupWait[]>([...known.pools.keys()].map((name) => [name, []]));
  for (const wait of known.waits) for (const pool of wait.pools) waits.get(pool)?.push(wait);
  return [...known.pools].map(([name, pool]) =>
    buildPoolFacts(
      pool,
      nodes.get(name) ?? [],
      started.get(name) ?? [],
      findBlockedDemand(waits.get(name) ?? [], known.standby.get(name)?.lacks ?? []),
      known.nowMs,
    ),
  );
}
