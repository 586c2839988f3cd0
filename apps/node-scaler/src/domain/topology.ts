import { restrictSelection, type NodeSelection } from "@muster/resources";
import { compareNames, getPhaseRank, type ComputedNode, type FreeMachine, type Pool } from "./fit.ts";
import type { Demand, Topology } from "./demand.ts";
import { ZONE, type KnownPool } from "./may-accept.ts";

/** The groups with a topology, with the possible domains of each. */
export type TopologyDomains = {
  /** Returns ascending values of the label, for the group of the demand with its choice of pools. Undefined if the group has no topology. */
  valuesFor(demand: Demand): readonly string[] | undefined;
  /** Restricts the demand to nodes with this value. */
  restrict(demand: Demand, value: string): Demand;
};

/** The number of free and held nodes, by pool and zone. */
export type ZoneCounts = ReadonlyMap<string, ReadonlyMap<string, number>>;

type AnyNode = ComputedNode | FreeMachine;

/**
 * Indexes the domains of groups. A group may be in the zones of its pools and of their nodes. For any other label only the configured value of its pools is
 * known for new nodes. Without a common value no node is created, and the group gets the nodes that the ledger finds.
 */
export function indexDomains(
  demands: readonly Demand[],
  pools: ReadonlyMap<string, Pool>,
  { nodes, unscaledZones }: { readonly nodes: readonly AnyNode[]; readonly unscaledZones: ZoneCounts },
): TopologyDomains {
  const members = Map.groupBy(
    demands.filter(({ topology }) => topology !== undefined),
    buildDemandKey,
  );
  const zonesOf = members.size === 0 ? new Map<string, ReadonlySet<string>>() : findZones(pools, nodes);
  const values = new Map(
    [...members].map(([name, ofGroup]) => {
      const key = ofGroup[0]?.topology?.key ?? "";
      const scaled = [...new Set(ofGroup.map(({ pool }) => pool))].filter((pool) => pools.has(pool));
      const values = listDomainValues(key, scaled, { pools, zonesOf });
      const unscaled = ofGroup.filter(({ pool }) => !pools.has(pool));
      return [
        name,
        key === ZONE ? values.filter((zone) => hasNodesFor(unscaled, zone, unscaledZones)) : values,
      ] as const;
    }),
  );
  return { valuesFor: (demand) => values.get(buildDemandKey(demand)), restrict: rememberRestrictions() };
}

function buildDemandKey({ group, name, option = 0 }: Demand): string {
  return `${group ?? name}\n${option}`;
}

/** Whether all new nodes of the pool, as far as they are known, have the value. True without a value. */
export function isInDomain(topology: Topology | undefined, { labels, zones }: KnownPool): boolean {
  if (topology?.value === undefined) return true;
  const { key, value } = topology;
  if (Object.hasOwn(labels, key)) return labels[key] === value;
  return key === ZONE && (zones === undefined || zones.includes(value));
}

/** The nodes of a group in one of its domains. */
type DomainPlan = {
  readonly group: { readonly demands: readonly Demand[] };
  readonly bound: ReadonlyMap<string, AnyNode>;
  readonly boots: readonly unknown[];
  readonly lacks: readonly { readonly code: string }[];
};

/**
 * Compares domains: first those in which the group can be completed, then those where only the maximum of a pool prevents that. Within each, the domain with
 * the most nodes for the group is first. At a tie the group stays in its domain, or else takes the domain with more ready nodes.
 */
export function compareDomains(one: DomainPlan, other: DomainPlan, keepsDomain: boolean): number {
  const rank = ({ lacks }: DomainPlan): number => {
    if (lacks.length === 0) return 0;
    return lacks.every(({ code }) => code === "POOL_MAX") ? 1 : 2;
  };
  const countReady = ({ bound }: DomainPlan): number =>
    [...bound.values()].filter((node) => !("status" in node) || getPhaseRank(node) === 0).length;
  const countOwn = ({ bound, group }: DomainPlan): number => {
    if (!keepsDomain) return 0;
    const names = new Set(group.demands.map(({ name }) => name));
    return [...bound.values()].filter((node) => "status" in node && names.has(node.status.boundTo ?? "")).length;
  };
  return (
    rank(one) - rank(other) ||
    one.lacks.length - other.lacks.length ||
    other.bound.size - one.bound.size ||
    one.boots.length - other.boots.length ||
    countOwn(other) - countOwn(one) ||
    countReady(other) - countReady(one)
  );
}

/** Restricts the demand to nodes with this value of the label of its topology. */
export function restrictToDomain(demand: Demand, value: string): Demand {
  return restrictDemand(demand, value, restrictSelection);
}

function restrictDemand(demand: Demand, value: string, restrict: typeof restrictSelection): Demand {
  const { topology, selection } = demand;
  if (topology === undefined) return demand;
  const { key } = topology;
  const restricted = restrict(selection, { key, operator: "In", values: [value] });
  return { ...demand, topology: { key, value }, selection: restricted };
}

/** Caches restrictions: demands with one selection share one object, so that its key is built once. */
function rememberRestrictions(): TopologyDomains["restrict"] {
  const known = new Map<NodeSelection | undefined, Map<string, NodeSelection>>();
  const restrict: typeof restrictSelection = (selection, requirement) => {
    const ofSelection = known.get(selection) ?? new Map<string, NodeSelection>();
    known.set(selection, ofSelection);
    const name = `${requirement.key}=${requirement.values?.join() ?? ""}`;
    const restricted = ofSelection.get(name) ?? restrictSelection(selection, requirement);
    ofSelection.set(name, restricted);
    return restricted;
  };
  return (demand, value) => restrictDemand(demand, value, restrict);
}

/** Whether each unscaled pool has at least one node in the zone, and one for each demand for a whole node. */
function hasNodesFor(demands: readonly Demand[], zone: string, zones: ZoneCounts): boolean {
  return [...Map.groupBy(demands, ({ pool }) => pool)].every(([pool, ofPool]) => {
    const whole = ofPool.filter(({ shared }) => shared === undefined).length;
    return (zones.get(pool)?.get(zone) ?? 0) >= Math.max(1, whole);
  });
}

type Known = {
  readonly pools: ReadonlyMap<string, Pool>;
  readonly zonesOf: ReadonlyMap<string, ReadonlySet<string>>;
};

function listDomainValues(key: string, names: readonly string[], { pools, zonesOf }: Known): readonly string[] {
  if (key === ZONE) return [...new Set(names.flatMap((name) => [...(zonesOf.get(name) ?? [])]))].sort(compareNames);
  const configured = new Set(
    names.flatMap((name) => {
      const labels = pools.get(name)?.policy.labels ?? {};
      return Object.hasOwn(labels, key) ? (labels[key] ?? []) : [];
    }),
  );
  return configured.size === 1 ? [...configured] : [];
}

/** Returns, by pool, its configured zones and the zones of its nodes. */
function findZones(
  pools: ReadonlyMap<string, Pool>,
  nodes: readonly AnyNode[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const zones = new Map<string, Set<string>>();
  for (const [name, { policy }] of pools) {
    const configured = policy.labels[ZONE];
    zones.set(name, new Set(configured === undefined ? policy.zones : [configured]));
  }
  for (const node of nodes) {
    const { pool, zone } = "spec" in node ? node.spec : node;
    const known = node.joined === undefined ? zone : node.joined.labels[ZONE];
    if (known !== undefined) zones.get(pool)?.add(known);
  }
  return zones;
}
