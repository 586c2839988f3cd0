import { matchesAll, untolerated, type NodeSelection } from "@muster/resources";
import type { PoolPolicy } from "./pool.ts";

/**
 * Whether a pod of the selection may accept a new node of the pool. Of its labels only those of its pool are known; the others may have any value. Its taints
 * are those that the pool declares, and its name is new.
 */
export function mayAccept(
  selection: NodeSelection | undefined,
  { labels, taints }: Pick<PoolPolicy, "labels" | "taints">,
): boolean {
  if (untolerated(taints, selection?.tolerations ?? []) !== undefined) return false;
  if (selection === undefined || selection.terms.length === 0) return true;
  return selection.terms.some(({ matchExpressions = [], matchFields = [] }) => {
    const known = matchExpressions.filter(({ key }) => Object.hasOwn(labels, key));
    const isEmpty = matchExpressions.length + matchFields.length === 0;
    return !isEmpty && matchFields.every(({ operator }) => operator === "NotIn") && matchesAll(known, labels);
  });
}
