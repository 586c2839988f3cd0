import { IMPOSSIBLE, type GroupWait } from "./describe-waits.ts";
import { getBootingSinceMs, type Pool } from "./fit.ts";
import type { NewNode, ScaledNode } from "./node.ts";
import { mergeStandby, type StandbyPlan } from "./plan-standby.ts";
import type { PoolPolicy } from "./pool.ts";

export type BootingNodes = {
  readonly instanceType: string;
  readonly spot: boolean;
  readonly count: number;
  /** The start of the longest boot in progress. */
  readonly sinceMs: number;
};

/** The facts about the scaling of a pool, for readers of the bucket. */
export type PoolFacts = {
  readonly pool: string;
  readonly max: number;
  /** The number of nodes that must stand by. */
  readonly standby: number;
  /** Created nodes that are not ready yet, including those of this round; by type, on-demand first. */
  readonly booting: readonly BootingNodes[];
  /** Why needed nodes are not created; undefined if all needed nodes are created. */
  readonly blocked: { readonly code: Exclude<GroupWait["code"], "BOOTING">; readonly message: string } | undefined;
};

/** Builds the facts of a pool before the first plan. */
export function buildFirstFacts({ name, max, standby }: PoolPolicy): PoolFacts {
  const count = mergeStandby(standby).reduce((sum, entry) => sum + entry.count, 0);
  return { pool: name, max, standby: count, booting: [], blocked: undefined };
}

export function buildPoolFacts(
  { policy }: Pool,
  nodes: readonly ScaledNode[],
  started: readonly NewNode[],
  blocked: PoolFacts["blocked"],
  nowMs: number,
): PoolFacts {
  const booting = new Map<string, BootingNodes>();
  const add = (instanceType: string, spot: boolean, sinceMs: number): void => {
    const key = `${instanceType}\n${spot}`;
    const before = booting.get(key);
    booting.set(key, {
      instanceType,
      spot,
      count: (before?.count ?? 0) + 1,
      sinceMs: Math.min(before?.sinceMs ?? sinceMs, sinceMs),
    });
  };
  for (const node of nodes) {
    if (node.status.phase === "Available") continue;
    add(node.spec.instanceType, node.spec.spot, getBootingSinceMs(node));
  }
  for (const { spec } of started) add(spec.instanceType, spec.spot, nowMs);
  return {
    ...buildFirstFacts(policy),
    booting: [...booting].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, entry]) => entry),
    blocked,
  };
}

/**
 * Returns the cause that delays a pool: the first group that does not get its nodes, or else the shortage of its standby. A group that the pool cannot serve
 * comes last, because it may wait forever, and must not hide a shortage.
 */
export function findBlockedDemand(waits: readonly GroupWait[], standby: StandbyPlan["lacks"]): PoolFacts["blocked"] {
  let unsuitable: PoolFacts["blocked"];
  for (const { code, message, group } of waits) {
    if (code === "BOOTING") continue;
    const blocked = { code, message: `${group}: ${message}` };
    if (!IMPOSSIBLE.some((impossible) => impossible === code)) return blocked;
    unsuitable ??= blocked;
  }
  const [lack] = standby;
  return lack === undefined ? unsuitable : { code: lack.code, message: lack.because };
}
