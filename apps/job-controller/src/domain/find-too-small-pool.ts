import type { Fault } from "@muster/faults";
import { countGang } from "./build-units.ts";
import type { JobSpec } from "./job.ts";

/**
 * Describes why a job's gang can never have its machines: the first pool with a too small maximum. The ledger decides for types that accept several pools. A
 * pool counts as large enough if its maximum is unknown, or if the gang tolerates its taints, because the maximum excludes tainted nodes.
 */
export function findTooSmallPool(spec: JobSpec, maxima: ReadonlyMap<string, number>): Fault | undefined {
  const needed = new Map<string, number>();
  const replicas = spec.replicas.filter(({ otherPools }) => otherPools === undefined);
  for (const replica of replicas)
    if (replica.shared === undefined) needed.set(replica.pool, (needed.get(replica.pool) ?? 0) + countGang(replica));
  // Members that share machines need at least one machine, in addition to the whole machines of other members.
  const shared = replicas.filter((replica) => replica.shared !== undefined && countGang(replica) > 0);
  for (const pool of new Set(shared.map((replica) => replica.pool))) needed.set(pool, (needed.get(pool) ?? 0) + 1);
  const tolerant = new Set(
    spec.replicas.flatMap(({ pool, selection }) => ((selection?.tolerations.length ?? 0) > 0 ? [pool] : [])),
  );
  for (const [pool, requested] of needed) {
    if (tolerant.has(pool)) continue;
    const capacity = maxima.get(pool) ?? Infinity;
    if (requested > capacity) return { code: "pool_capacity", pool, requested, capacity };
  }
  return undefined;
}
