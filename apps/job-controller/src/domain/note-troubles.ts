import { conditionOf, withoutCondition, type JobStatus } from "./job-status.ts";
import type { JobPolicy, PodFact, Snapshot } from "./snapshot.ts";
import { wasWrittenRecently, transitionConditions } from "./transition-conditions.ts";

/**
 * The status with the condition PodsWaiting while something keeps pods from starting or running, with the message of the scheduler or kubelet. A changed
 * message is written at most every `explainEveryMs`: a kubelet that cannot pull an image alternates between two messages.
 */
export function noteTroubles(snapshot: Snapshot, status: JobStatus, policy: JobPolicy): JobStatus {
  const { nowMs } = snapshot;
  const troubled = snapshot.replicas.flatMap(({ slots }) =>
    slots.flatMap((pod) => (pod !== undefined && isTroubled(pod, status) ? [pod] : [])),
  );
  const [first] = troubled;
  if (first?.trouble === undefined) return withoutCondition(status, "PodsWaiting");
  const before = conditionOf(status, "PodsWaiting");
  if (before !== undefined && wasWrittenRecently(before, nowMs, policy)) return status;
  const { reason, message: cause } = first.trouble;
  const more = troubled.length - 1;
  const others = more === 0 ? "" : `; ${more} more ${more === 1 ? "pod waits" : "pods wait"}`;
  const message = `pod ${first.name}: ${reason}${cause && `: ${cause}`}${others}`;
  return transitionConditions(status, { type: "PodsWaiting", status: "True", reason, message }, nowMs);
}

/** A pod that is being deleted need not start. */
function isTroubled(pod: PodFact, { attempt }: JobStatus): boolean {
  return pod.trouble !== undefined && !pod.deleting && pod.attempt === attempt;
}
