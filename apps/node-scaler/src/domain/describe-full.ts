import { getPhaseRank, type ComputedNode, type FreeMachine, type Pool } from "./fit.ts";
import type { NewNode } from "./node.ts";

type Taken = { readonly bound: ReadonlyMap<string, ComputedNode | FreeMachine>; readonly boots: readonly NewNode[] };

/** Describes how full the pool is, and for which work. Of the booting nodes, a group that lacks a node gets only its own. */
export function describeFull(
  { policy: { name, max }, records, ending, booting, shared, foreign }: Pool,
  { bound, boots }: Taken,
): string {
  const isOwn = (node: ComputedNode | FreeMachine): boolean =>
    "status" in node && node.spec.pool === name && getPhaseRank(node) > 0;
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

/** Names a node and the pods with which it is shared. */
export function describeShared({ name, sharedWith = "" }: ComputedNode | FreeMachine): string {
  return `${name} has ${sharedWith}`;
}
