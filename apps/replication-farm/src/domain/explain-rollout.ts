import { computeMinimum } from "./rollout.ts";
import { planRollout, type RolloutSnapshot } from "./plan-rollout.ts";

/** Explains, from the plan of a rolling update, why it does not move now; empty: it moves. */
export function explainRollout(snapshot: RolloutSnapshot): string {
  const { rollout, old, fresh } = snapshot;
  const { oldSet, newSet, oldDesired, newDesired, target, delayMs } = rollout;
  const step = planRollout(snapshot);
  if (step.kind !== "wait") return "";
  switch (step.because) {
    case "paused":
      return "it is paused";
    case "delay":
      return `it waits ${delayMs / 1000} s between two steps`;
    case "transfer-there":
      return `${oldSet} or ${newSet} is leaving a node, which ends first`;
    case "blind":
      return "the watcher is silent, so the health of replicas is unknown";
    case "minimum-healthy":
      return `${fresh?.healthy ?? 0} of ${newDesired} replicas of ${newSet} are healthy, so ${oldSet} keeps ${oldDesired}: together they must keep ${computeMinimum(rollout)} healthy`;
    case "places-missing":
      return `${newSet} has ${fresh?.set.placements.length ?? 0} of ${target} placements, and no other eligible node is free`;
    case "surplus-there":
      return `${oldSet} or ${newSet} has not removed its surplus placements yet`;
    case "old-pods-there":
      return `${oldSet} has ${old?.set.placements.length ?? 0} placements left, which are being removed`;
  }
}
