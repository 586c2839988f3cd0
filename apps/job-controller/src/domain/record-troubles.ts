import { describeCrowding, type CrowdedComponent } from "@muster/resources";
import { findCondition, removeCondition, type JobStatus } from "./job-status.ts";
import type { JobPolicy, PodFact, Snapshot } from "./snapshot.ts";
import { wasWrittenRecently, transitionConditions } from "./transition-conditions.ts";

/**
 * Sets the condition PodsWaiting while pods do not start or run, with the message of the scheduler or kubelet. A changed message is written at most every
 * `explainEveryMs`: a kubelet that cannot pull an image alternates between two messages.
 */
export function recordTroubles(snapshot: Snapshot, status: JobStatus, policy: JobPolicy): JobStatus {
  const { nowMs } = snapshot;
  const troubled = snapshot.replicas.flatMap(({ slots }) =>
    slots.flatMap((pod) => (pod !== undefined && isTroubled(pod, status) ? [pod] : [])),
  );
  const [first] = troubled;
  if (first?.trouble === undefined) return removeCondition(status, "PodsWaiting");
  const before = findCondition(status, "PodsWaiting");
  const crowding = first.node === undefined ? findCrowding(snapshot, first) : undefined;
  // The names of foreign pods are more useful than the scheduler's message, which arrives earlier.
  const isNews = crowding !== undefined && before !== undefined && before.reason !== "ForeignPods";
  if (!isNews && before !== undefined && wasWrittenRecently(before, nowMs, policy)) return status;
  const { reason } = first.trouble;
  const cause = crowding === undefined ? first.trouble.message : describeCrowding(crowding);
  const more = troubled.length - 1;
  const others = more === 0 ? "" : `; ${more} more ${more === 1 ? "pod waits" : "pods wait"}`;
  const message = `pod ${first.name}: ${reason}${cause && `: ${cause}`}${others}`;
  if (crowding === undefined)
    return transitionConditions(status, { type: "PodsWaiting", status: "True", reason, message }, nowMs);
  return transitionConditions(status, { type: "PodsWaiting", status: "True", reason: "ForeignPods", message }, nowMs);
}

function findCrowding({ crowded = [] }: Snapshot, { component, pinned }: PodFact): CrowdedComponent | undefined {
  return crowded.find((each) => each.component === component && each.node === pinned);
}

/** A pod that is being deleted need not start. */
function isTroubled(pod: PodFact, { attempt }: JobStatus): boolean {
  return pod.trouble !== undefined && !pod.deleting && pod.attempt === attempt;
}
