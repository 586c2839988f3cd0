import { acceptsNode } from "@muster/resources";
import { classOf } from "./acceptance.ts";
import type { Demand } from "./demand.ts";
import type { ComputedNode } from "./fit.ts";

/** A node was created for a demand of this class, and the demand does not accept it. Until then no other one of the type is created for the class. */
export type Mismatch = {
  readonly pool: string;
  readonly instanceType: string;
  readonly demandClass: string;
  readonly node: string;
  readonly untilMs: number;
};

/** Without this memory a node would be created in each round for a label that no node of the pool gets. */
export function observeMismatches(
  before: readonly Mismatch[],
  {
    nodes,
    demands,
    nowMs,
    forMs,
  }: {
    readonly nodes: readonly ComputedNode[];
    readonly demands: readonly Demand[];
    readonly nowMs: number;
    /** How long one is remembered. */
    readonly forMs: number;
  },
): readonly Mismatch[] {
  const selecting = demands.filter(({ selection }) => selection !== undefined);
  if (selecting.length === 0) return before.filter(({ untilMs }) => untilMs > nowMs);
  const byName = new Map(selecting.map((demand) => [demand.name, demand]));
  const found = nodes.flatMap(({ name, spec, status, joined }): readonly Mismatch[] => {
    const demand = byName.get(status.boundTo ?? "");
    if (demand === undefined || joined === undefined || acceptsNode(demand.selection, joined)) return [];
    const { pool, instanceType } = spec;
    return [{ pool, instanceType, demandClass: classOf(demand), node: name, untilMs: nowMs + forMs }];
  });
  const selections = new Map(selecting.map((demand) => [classOf(demand), demand.selection]));
  // Labels may come late.
  const isRefuted = ({ pool, instanceType, demandClass }: Mismatch): boolean =>
    selections.has(demandClass) &&
    nodes.some(
      ({ spec, joined }) =>
        spec.pool === pool &&
        spec.instanceType === instanceType &&
        joined !== undefined &&
        acceptsNode(selections.get(demandClass), joined),
    );
  const keyOf = ({ pool, instanceType, demandClass }: Mismatch): string => [pool, instanceType, demandClass].join("\n");
  const all = new Map([...before, ...found].map((one) => [keyOf(one), one]));
  return [...all.values()].filter((one) => one.untilMs > nowMs && !isRefuted(one));
}
