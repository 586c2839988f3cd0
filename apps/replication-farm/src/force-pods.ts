import { decideForce } from "@muster/health";
import { podNameOf } from "./domain/replica-set.ts";
import type { SetSnapshot } from "./domain/set-snapshot.ts";
import type { Owned, PassDeps } from "./pass-deps.ts";

/**
 * Removes the pods that have no place any more, and whose nodes will never tell of their end: a deleted set would be there for ever. The API server is asked only for those that are on their way
 * out of nodes that take no pods; what cannot be taken back is decided on what it says.
 */
export async function forcePods(
  { pods, force, now, tell }: PassDeps,
  owned: Pick<Owned, "name" | "isHeld">,
  { set, pods: seen, nodes }: SetSnapshot,
): Promise<void> {
  if (nodes === undefined) return;
  const wanted = new Set(set.placements.map(({ ordinal }) => podNameOf(set.name, ordinal)));
  const isSuspect = ({ name, node }: { readonly name: string; readonly node: string }): boolean =>
    node !== "" && !nodes.usable.has(node) && !wanted.has(name);
  if (![...seen.values()].some((pod) => pod.deleting && isSuspect(pod))) return;
  for (const { pod, uid, overdueOn } of await pods.list(set)) {
    const because = wanted.has(pod) ? undefined : decideForce(overdueOn, now(), force);
    if (because === undefined || !owned.isHeld()) continue;
    tell.planned(owned.name, "force", because);
    await pods.delete(pod, uid, true);
  }
}
