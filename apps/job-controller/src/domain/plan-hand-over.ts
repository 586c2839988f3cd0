import { planBudgetAway } from "./plan-clean-up.ts";
import { planGroupAway } from "./plan-group.ts";
import { planReturn, podsOf } from "./plan-machines.ts";
import { planDeletions, planForced } from "./plan-pods.ts";
import type { JobPlan } from "./plan-steps.ts";
import { isOurs } from "./recover-status.ts";
import type { ReplicaSeen, Snapshot } from "./snapshot.ts";
import { isActive } from "./summarise-replicas.ts";

/**
 * Leaves a job to the controller that it names: pods that are ours go, and then its machines, so that no two controllers run one job. The status, the services, which
 * both would make alike, and whatever the other controller has made stay. Plans nothing once that is done, nor for a job that never was ours.
 */
export function planHandOver(snapshot: Snapshot): JobPlan {
  const { status, nodesLost } = snapshot;
  const own = withoutOthers(snapshot);
  const ours = podsOf(own);
  const hasMachines = snapshot.units.some(({ state }) => state === "granted" || state === "waiting");
  if (!ours.some(isActive) && !hasMachines) return { status, steps: [], lookAgainInMs: undefined };
  return {
    status,
    steps: [
      ...planForced(ours, nodesLost),
      ...planDeletions(ours.filter(isActive), "handed-over"),
      ...planBudgetAway(snapshot, "handed-over"),
      ...planGroupAway(snapshot, "handed-over"),
      ...planReturn(own, "handed-over"),
    ],
    lookAgainInMs: undefined,
  };
}

/** A pod of another controller keeps no machine of ours. */
function withoutOthers(snapshot: Snapshot): Snapshot {
  const replicas = snapshot.replicas.map((each): ReplicaSeen => ({
    ...each,
    slots: each.slots.map((pod) => (pod !== undefined && isOurs(pod) ? pod : undefined)),
    surplus: each.surplus.filter(({ pod }) => isOurs(pod)),
  }));
  return {
    ...snapshot,
    replicas,
    strangers: snapshot.strangers.filter(isOurs),
    unreadable: snapshot.unreadable.filter(isOurs),
  };
}
