import { checkLabelValue } from "@muster/names";
import { countPoolOptions, MAX_ACCEPTED_POOLS, MAX_POOL_OPTIONS } from "@muster/resources";

/** Finds the first problem of the pools that a component accepts, in order of preference, and the index of its pool. */
export function findPoolProblem(
  pools: readonly string[],
): { readonly index: number; readonly reason: string } | undefined {
  if (pools.length > MAX_ACCEPTED_POOLS) {
    const reason = `"${pools[MAX_ACCEPTED_POOLS]}" is one of ${pools.length} pools; ${MAX_ACCEPTED_POOLS} at most`;
    return { index: MAX_ACCEPTED_POOLS, reason };
  }
  for (const [index, pool] of pools.entries()) {
    const reason = findProblem(pool) ?? (pools.indexOf(pool) < index ? `"${pool}" is named twice` : undefined);
    if (reason !== undefined) return { index, reason };
  }
  return undefined;
}

/** Returns the problem of components that accept too many different lists of pools for one request to the ledger. */
export function findOptionsProblem(components: Parameters<typeof countPoolOptions>[0]): string | undefined {
  const count = countPoolOptions(components);
  if (count <= MAX_POOL_OPTIONS) return undefined;
  return `accept ${count} combinations of pools; ${MAX_POOL_OPTIONS} at most: let more components accept the same pools in the same order`;
}

function findProblem(pool: string): string | undefined {
  if (pool === "") return "is empty; the name of a pool is needed";
  const fault = checkLabelValue("pool", pool);
  return fault?.code === "invalid_request" ? fault.reason : undefined;
}
