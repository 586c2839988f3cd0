import type { Amounts } from "@muster/resources";
import { getDemandClass } from "./acceptance.ts";
import type { Demand } from "./demand.ts";
import { indexFreeNodes, indexDemands } from "./free-nodes.ts";
import type { ComputedNode } from "./fit.ts";
import type { ScaledNode } from "./node.ts";
import {
  hasParts,
  markGroup,
  planGroup,
  rewindGroup,
  type DemandGroup,
  type GroupPlan,
  type BindingRound,
} from "./plan-bindings.ts";
import { listSpares, type StopStep } from "./plan-surplus.ts";

type RoomWorld = {
  /** The round after each group has its nodes; nodes promised here are taken from this round. */
  readonly round: BindingRound;
  readonly plans: readonly GroupPlan[];
  /** Unbound nodes by pool, in the order of `compareNodes`. */
  readonly unbound: ReadonlyMap<string, readonly ComputedNode[]>;
  /** Unbound shared nodes, which are promised to groups, and are never ended for room. */
  readonly shared: readonly ComputedNode[];
  /** Names of nodes that end in any case. */
  readonly stopped: ReadonlySet<string>;
};

type RoomPlan = {
  readonly stop: readonly StopStep[];
  /** The number of nodes of each pool that may be created for standby. */
  readonly headroom: ReadonlyMap<string, number>;
};

/**
 * Plans which idle nodes end early, because a group waits for nodes of a full pool: the newest first, and no standby node. Nodes stay if they could serve a
 * waiting demand, or a group that a waiting one may displace. As many nodes end as the group lacks, less the nodes that already end; no node ends if even all
 * of them do not suffice.
 */
export function planRoom(world: RoomWorld): RoomPlan {
  const { round, plans } = world;
  const waiting = plans.filter(({ lacks }) => lacks.length > 0);
  if (!waiting.some(({ lacks }) => lacks.some(({ code }) => code === "POOL_MAX")))
    return { stop: [], headroom: round.headroom };
  // Nodes that end in this round are not promised to a group.
  const unbound = [...world.unbound.values()].flat();
  const left = unbound.filter(({ name }) => !world.stopped.has(name));
  for (const node of unbound) if (world.stopped.has(node.name)) round.rooms.close(node);
  const nodes = indexFreeNodes([...left, ...world.shared], round.pools, round.acceptance);
  const headroom = new Map([...round.pools.keys()].map((name) => [name, Infinity]));
  // A waiting group has no nodes.
  const boundless = { ...round, nodes, headroom, keepsDomains: false };
  const groups = chooseDomains(waiting, boundless);
  const rooms = buildRooms(world, [...groups, ...findDisplaceable(plans)]);
  const stop = groups.flatMap((group) => {
    const before = markGroup(boundless);
    const { boots, lacks } = planGroup(group, boundless);
    if (lacks.length > 0) return [];
    const lacking = [...Map.groupBy(boots, ({ spec }) => spec.pool)].map(([name, { length: made }]) => {
      const room = rooms.get(name) ?? { coming: 0, spares: [] };
      return { name, room, made, missing: Math.max(0, made - room.coming) };
    });
    if (lacking.some(({ room, missing }) => missing > room.spares.length)) {
      rewindGroup(boundless, before);
      return [];
    }
    return lacking.flatMap(({ name, room, made, missing }) => {
      room.coming += missing - made;
      const max = round.pools.get(name)?.policy.max ?? 0;
      const message = `it makes room for ${group.name}: pool ${name} is full at ${max}, and nothing needs this node`;
      return room.spares
        .splice(0, missing)
        .map((node) => ({ name: node.name, because: { code: "IDLE" as const, message } }));
    });
  });
  const forStandby = [...round.headroom].map(([name, free]) => {
    return [name, Math.max(0, Math.min(free, rooms.get(name)?.coming ?? 0))] as const;
  });
  return { stop, headroom: new Map(forStandby) };
}

/** Returns the waiting groups. A group with a topology is in the domain where it would lack the fewest nodes without the maximum of any pool. */
function chooseDomains(waiting: readonly GroupPlan[], boundless: BindingRound): readonly DemandGroup[] {
  const groups = waiting.map(({ group }) => group);
  if (groups.every(({ domains }) => domains === undefined)) return groups;
  const before = markGroup(boundless);
  const chosen = groups.map((group) => planGroup(group, boundless).group);
  rewindGroup(boundless, before);
  return chosen.map(({ name, demands }) => ({ name, demands }));
}

/**
 * Returns groups that a waiting group may displace: once it can be completed, it takes machines and rooms for parts before later groups. Whole nodes of the
 * scaler stay with their demands.
 */
function findDisplaceable(plans: readonly GroupPlan[]): readonly DemandGroup[] {
  const firstWaiting = plans.findIndex(({ lacks }) => lacks.length > 0);
  return plans
    .slice(firstWaiting + 1)
    .filter(({ lacks }) => lacks.length === 0)
    .filter(({ group, bound }) => hasParts(group) || [...bound.values()].some((node) => !("status" in node)))
    .map(({ group }) => group);
}

type Room = {
  /** The number of nodes that can be created after the removal of all ending nodes; negative while the pool exceeds its maximum. */
  coming: number;
  /** The nodes that can be ended, in the order of ending. */
  readonly spares: ScaledNode[];
};

function buildRooms({ round, unbound, stopped }: RoomWorld, groups: readonly DemandGroup[]): ReadonlyMap<string, Room> {
  const demands = groups.flatMap((group) => group.demands);
  const whole = demands.filter(({ shared }) => shared === undefined);
  const isWantedWhole = indexDemands(whole, round.pools, round.acceptance);
  const parts = Map.groupBy(distinctNeeds(demands), ({ pool }) => pool);
  const isWanted = (node: ComputedNode): boolean =>
    isWantedWhole(node) ||
    (parts.get(node.spec.pool) ?? []).some(
      ({ demand, requests }) => round.acceptance.accepts(demand, node) && round.rooms.hasRoom(node, requests),
    );
  return new Map(
    [...round.pools].map(([name, pool]) => {
      const nodes = unbound.get(name) ?? [];
      const left = nodes.filter((node) => !stopped.has(node.name));
      // A wanted node does not stand by for long.
      const unwanted = left.filter((node) => !isWanted(node));
      const ending = pool.ending + nodes.length - left.length;
      const excess = Math.max(0, pool.records - pool.policy.max);
      const coming = (round.headroom.get(name) ?? 0) + ending - excess;
      return [name, { coming, spares: listSpares(pool, unwanted) }];
    }),
  );
}

type PartNeed = { readonly pool: string; readonly requests: Amounts; readonly demand: Demand };

/** Returns distinct needs of parts, because equal requests for equal nodes need only one search. */
function distinctNeeds(demands: readonly Demand[]): readonly PartNeed[] {
  const needs = new Map<string, PartNeed>();
  for (const demand of demands) {
    const { pool, shared } = demand;
    if (shared === undefined) continue;
    needs.set(JSON.stringify([pool, getDemandClass(demand), ...[...shared].sort()]), {
      pool,
      requests: shared,
      demand,
    });
  }
  return [...needs.values()];
}
