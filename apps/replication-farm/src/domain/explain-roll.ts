import { minimumOf } from "./roll.ts";
import { planRoll, type RollSnapshot } from "./plan-roll.ts";

/** Why a rolling update does not move now, for people, as its own plan says; empty: it moves. */
export function explainRoll(snapshot: RollSnapshot): string {
  const { roll, old, fresh } = snapshot;
  const { oldSet, newSet, oldDesired, newDesired, target, delayMs } = roll;
  const step = planRoll(snapshot);
  if (step.kind !== "wait") return "";
  switch (step.because) {
    case "paused":
      return "it is paused";
    case "delay":
      return `it waits ${delayMs / 1000} s between two steps`;
    case "transfer-there":
      return `${oldSet} or ${newSet} is leaving a node, which ends first`;
    case "blind":
      return "the watcher is silent, so that nobody knows which replicas are healthy";
    case "minimum-healthy":
      return `${fresh?.healthy ?? 0} of ${newDesired} in ${newSet} are healthy, so that ${oldSet} keeps ${oldDesired}: ${minimumOf(roll)} of both have to stay healthy`;
    case "places-missing":
      return `${newSet} has ${fresh?.set.placements.length ?? 0} of ${target} places, and no other eligible node is free`;
    case "surplus-there":
      return `${oldSet} or ${newSet} has not yet given up what it has to`;
    case "old-pods-there":
      return `${oldSet} has ${old?.set.placements.length ?? 0} places left, which go now`;
  }
}
