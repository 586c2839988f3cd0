import type { Roll } from "./roll.ts";

/**
 * Why a rolling update can never keep its minimum healthy while replicas move; undefined: it can. `most`: how many replicas both sets have together.
 * As many as there can ever be leave nothing that could be moved.
 */
export function decideMinimum(
  { minimum, target, leaveOld }: Pick<Roll, "minimum" | "target" | "leaveOld">,
  most: number,
): string | undefined {
  const isTooMany = minimum > target && !leaveOld;
  const isAll = minimum > 0 && minimum >= Math.max(most, target);
  if (!isTooMany && !isAll) return undefined;
  const possible = Math.min(Math.max(most, target) - 1, leaveOld ? Infinity : target);
  return `${minimum} can never be kept while replicas move from one set to the other: it is ${possible} at most`;
}
