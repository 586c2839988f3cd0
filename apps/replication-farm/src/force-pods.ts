import { decideForce } from "@muster/health";
import { buildPodName } from "./domain/replica-set.ts";
import type { SetSnapshot } from "./domain/set-snapshot.ts";
import type { SetOwnership, PassDeps } from "./pass-deps.ts";
import { runInStepSpan } from "./pass-trace.ts";

/**
 * Force-deletes pods without a placement whose nodes will never report their end; otherwise a deleted set would stay forever. Reads the API server only when
 * pods are being deleted on nodes that accept no pods. Its answer decides, because a forced deletion cannot be undone.
 */
export async function forcePods(
  { pods, force, now, report }: PassDeps,
  owned: Pick<SetOwnership, "name" | "isHeld">,
  { set, pods: seen, nodes }: SetSnapshot,
): Promise<void> {
  if (nodes === undefined) return;
  const wanted = new Set(set.placements.map(({ ordinal }) => buildPodName(set.name, ordinal)));
  const isSuspect = ({ name, node }: { readonly name: string; readonly node: string }): boolean =>
    node !== "" && !nodes.usable.has(node) && !wanted.has(name);
  if (![...seen.values()].some((pod) => pod.deleting && isSuspect(pod))) return;
  for (const { pod, uid, overdueOn } of await pods.list(set)) {
    const because = wanted.has(pod) ? undefined : decideForce(overdueOn, now(), force);
    if (because === undefined || !owned.isHeld()) continue;
    report.planned(owned.name, "force", because);
    await runInStepSpan({ name: "force pod", set: owned.name, because }, () => pods.delete(pod, uid, true));
  }
}
