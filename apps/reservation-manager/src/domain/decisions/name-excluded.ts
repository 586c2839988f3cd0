import type { Fault } from "@muster/faults";
import { canHoldMinimum, matchesNode, findUntolerated, type Taint } from "@muster/resources";
import type { Machines, NodeFacts } from "../ledger/machines.ts";
import type { PoolNeed } from "../ledger/reservation.ts";

/** Limit of names in a fault, so that it stays readable and fits into one message. */
const MAX_NAMED = 3;

/** Adds the cordons and taints that exclude nodes of the fault's pool from these needs. Visits every node. */
export function withExcluded(fault: Fault, needs: readonly PoolNeed[], machines: Machines): Fault {
  if (fault.code !== "pool_capacity") return fault;
  const cordoned: string[] = [];
  const taints = new Set<string>();
  const ofPool = needs.filter(({ pool }) => pool === fault.pool);
  for (const { facts } of machines.nodes.values()) {
    const selecting = facts && ofPool.find((need) => facts.pool === need.pool && isSelected(facts, need));
    if (facts === undefined || facts.schedulable || selecting === undefined) continue;
    const taint = findUntolerated(facts.taints, selecting.selection?.tolerations ?? []);
    if (taint !== undefined) taints.add(describeTaint(taint));
    else if (facts.cordoned) cordoned.push(facts.name);
  }
  return {
    ...fault,
    ...(cordoned.length > 0 && { cordoned: cordoned.slice(0, MAX_NAMED) }),
    ...(taints.size > 0 && { taints: [...taints].sort().slice(0, MAX_NAMED) }),
  };
}

/** Whether the need accepts the node, whatever its taints are. */
function isSelected(facts: NodeFacts, { selection }: PoolNeed): boolean {
  return selection === undefined || (matchesNode(selection, facts) && canHoldMinimum(selection, facts.allocatable));
}

export function describeTaint({ key, value = "", effect }: Taint): string {
  return `${key}${value === "" ? "" : `=${value}`}:${effect}`;
}
