import type { Rollout } from "./rollout.ts";

/**
 * Why a rolling update can never keep its minimum healthy while replicas move; undefined: it can. `present`: the replicas of both sets together. If the minimum
 * equals the maximum number of replicas, no replica can move.
 */
export function decideMinimum(
  { minimum, target, leaveOld }: Pick<Rollout, "minimum" | "target" | "leaveOld">,
  present: number,
): string | undefined {
  const isTooMany = minimum > target && !leaveOld;
  const isAll = minimum > 0 && minimum >= Math.max(present, target);
  if (!isTooMany && !isAll) return undefined;
  const possible = Math.min(Math.max(present, target) - 1, leaveOld ? Infinity : target);
  return `${minimum} can never be kept while replicas move from one set to the other: it is ${possible} at most`;
}
