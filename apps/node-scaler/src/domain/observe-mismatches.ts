import { acceptsNode, withoutMinimum } from "@muster/resources";
import { getDemandClass } from "./acceptance.ts";
import type { Demand } from "./demand.ts";
import type { ComputedNode, JoinedNode } from "./fit.ts";
import { ZONE } from "./may-accept.ts";
import type { NodeSpec } from "./node.ts";
import type { PoolPolicy } from "./pool.ts";
import { restrictToDomain } from "./topology.ts";

/**
 * A record that a node was created for a demand of this class, which does not accept it. Until it expires, no other node of the type is created for the class.
 */
export type SizeMismatch = {
  readonly pool: string;
  readonly instanceType: string;
  readonly demandClass: string;
  readonly node: string;
  readonly untilMs: number;
};

/** Updates the mismatches. Without this memory each round would create a node for a label that no node of the pool gets. */
export function observeMismatches(
  before: readonly SizeMismatch[],
  {
    nodes,
    demands,
    pools,
    nowMs,
    forMs,
  }: {
    readonly nodes: readonly ComputedNode[];
    readonly demands: readonly Demand[];
    readonly pools: ReadonlyMap<string, PoolPolicy>;
    readonly nowMs: number;
    /** The time for which a mismatch is remembered. */
    readonly forMs: number;
  },
): readonly SizeMismatch[] {
  const selecting = demands.filter(({ selection, topology }) => selection !== undefined || topology !== undefined);
  if (selecting.length === 0) return before.filter(({ untilMs }) => untilMs > nowMs);
  const keyOfDemand = (name: string, pool: string): string => `${name}\n${pool}`;
  const byName = new Map(selecting.map((demand) => [keyOfDemand(demand.name, demand.pool), demand]));
  const found = nodes.flatMap(({ name, spec, status, joined }): readonly SizeMismatch[] => {
    const bound = byName.get(keyOfDemand(status.boundTo ?? "", spec.pool));
    const demand = bound && restrictToOrder(bound, spec, pools);
    if (demand === undefined || joined === undefined || mayAcceptJoined(demand, joined)) return [];
    const { pool, instanceType } = spec;
    return [{ pool, instanceType, demandClass: getDemandClass(demand), node: name, untilMs: nowMs + forMs }];
  });
  const selections = new Map(
    selecting.flatMap((demand) =>
      inOrderedDomains(demand, nodes, pools).map((one) => [getDemandClass(one), one.selection] as const),
    ),
  );
  // Labels may be set late.
  const isRefuted = ({ pool, instanceType, demandClass }: SizeMismatch): boolean =>
    selections.has(demandClass) &&
    nodes.some(
      ({ spec, joined }) =>
        spec.pool === pool &&
        spec.instanceType === instanceType &&
        joined !== undefined &&
        acceptsNode(selections.get(demandClass), joined),
    );
  const keyOf = ({ pool, instanceType, demandClass }: SizeMismatch): string =>
    [pool, instanceType, demandClass].join("\n");
  const all = new Map([...before, ...found].map((one) => [keyOf(one), one]));
  return [...all.values()].filter((one) => one.untilMs > nowMs && !isRefuted(one));
}

/** Whether the demand may accept a joined node. A node of unknown size may provide every minimum. */
function mayAcceptJoined({ selection }: Pick<Demand, "selection">, joined: JoinedNode): boolean {
  return acceptsNode(joined.allocatable === undefined ? withoutMinimum(selection) : selection, joined);
}

/** Restricts the demand to nodes with the value of its topology that a node of this order has. */
function restrictToOrder(demand: Demand, { pool, zone }: NodeSpec, pools: ReadonlyMap<string, PoolPolicy>): Demand {
  const { topology } = demand;
  if (topology === undefined) return demand;
  const value = topology.key === ZONE ? zone : pools.get(pool)?.labels[topology.key];
  return value === undefined ? demand : restrictToDomain(demand, value);
}

function inOrderedDomains(
  demand: Demand,
  nodes: readonly ComputedNode[],
  pools: ReadonlyMap<string, PoolPolicy>,
): readonly Demand[] {
  if (demand.topology === undefined) return [demand];
  const orders = new Map(nodes.map(({ spec }) => [`${spec.pool}\n${spec.zone ?? ""}`, spec]));
  return [...orders.values()].map((order) => restrictToOrder(demand, order, pools));
}
