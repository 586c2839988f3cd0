import { planBudgetDeletion } from "./plan-clean-up.ts";
import { planGroupDeletions } from "./plan-group.ts";
import { planReleases } from "./plan-job-machines.ts";
import { planDeletions, planForcedDeletions } from "./plan-pods.ts";
import type { JobPlan } from "./plan-steps.ts";
import { isOwnStatus } from "./recover-status.ts";
import type { ReplicaSeen, Snapshot } from "./snapshot.ts";
import { isActive, listPods } from "./job-pods.ts";

/**
 * Plans the hand-over of a job to the controller that it names: deletes our pods, then releases the machines, so that no two controllers run one job. Keeps the
 * status and the services, which both controllers build alike, and the objects of the other controller. Plans no steps after the hand-over, and none for a job
 * that never was ours.
 */
export function planHandOver(snapshot: Snapshot): JobPlan {
  const { status, nodesLost } = snapshot;
  const own = withoutOthers(snapshot);
  const ours = listPods(own);
  const hasMachines = snapshot.units.some(({ state }) => state === "granted" || state === "waiting");
  if (!ours.some(isActive) && !hasMachines) return { status, steps: [], recheckInMs: undefined };
  return {
    status,
    steps: [
      ...planForcedDeletions(ours, nodesLost),
      ...planDeletions(ours.filter(isActive), "handed-over"),
      ...planBudgetDeletion(snapshot, "handed-over"),
      ...planGroupDeletions(snapshot, "handed-over"),
      ...planReleases(own, "handed-over"),
    ],
    recheckInMs: undefined,
  };
}

/** Removes pods of other controllers, because they keep no machine of ours. */
function withoutOthers(snapshot: Snapshot): Snapshot {
  const replicas = snapshot.replicas.map((each): ReplicaSeen => ({
    ...each,
    slots: each.slots.map((pod) => (pod !== undefined && isOwnStatus(pod) ? pod : undefined)),
    surplus: each.surplus.filter(({ pod }) => isOwnStatus(pod)),
  }));
  return {
    ...snapshot,
    replicas,
    unknownTypes: snapshot.unknownTypes.filter(isOwnStatus),
    unreadable: snapshot.unreadable.filter(isOwnStatus),
  };
}
