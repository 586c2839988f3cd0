import { describePassed } from "./describe-duration.ts";
import { compareNames, type Pool } from "./fit.ts";
import type { ScaledNode } from "./node.ts";
import { mergeStandby, isStandbyFor } from "./plan-standby.ts";

export type StopStep = {
  readonly name: string;
  readonly because: { readonly code: "IDLE" | "POOL_REMOVED"; readonly message: string };
};

/**
 * Plans which unbound nodes of a pool end. Of the nodes that have been idle for the pool's idle time, all but the standby end, the newest first. Other nodes do
 * not count as standby here, so that each surplus node is kept for the whole idle time.
 */
export function planSurplus(pool: Pool, unbound: readonly ScaledNode[], nowMs: number): readonly StopStep[] {
  const idle = unbound.filter((node) => nowMs - getIdleSinceMs(node, nowMs) >= pool.policy.idleMs);
  return listSpares(pool, idle).map((node) => ({
    name: node.name,
    because: { code: "IDLE", message: describeIdle(node, nowMs) },
  }));
}

/** Returns the nodes of a pool beyond its standby, the newest first. */
export function listSpares(pool: Pool, nodes: readonly ScaledNode[]): ScaledNode[] {
  const standby = mergeStandby(pool.policy.standby);
  const keep = new Map(standby.map((entry) => [entry, entry.count]));
  const spares: ScaledNode[] = [];
  for (const node of nodes.toSorted(oldestFirst)) {
    const entry = standby.find((candidate) => isStandbyFor(node, candidate, pool));
    const left = entry === undefined ? 0 : (keep.get(entry) ?? 0);
    if (entry === undefined || left === 0) spares.push(node);
    else keep.set(entry, left - 1);
  }
  return spares.reverse();
}

/** Returns since when a node is idle. A node that has just lost its binding, or has a future time from a clock that was ahead, becomes idle now. */
export function getIdleSinceMs({ status }: ScaledNode, nowMs: number): number {
  return status.boundTo === undefined ? Math.min(status.idleSinceMs ?? nowMs, nowMs) : nowMs;
}

function oldestFirst(one: ScaledNode, other: ScaledNode): number {
  return one.status.createdAtMs - other.status.createdAtMs || compareNames(one.name, other.name);
}

function describeIdle(node: ScaledNode, nowMs: number): string {
  const idleMs = nowMs - getIdleSinceMs(node, nowMs);
  return idleMs === 0 ? "nothing needs it" : `nothing has needed it for ${describePassed(idleMs)}`;
}
