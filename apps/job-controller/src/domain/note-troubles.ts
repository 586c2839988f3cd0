import { conditionOf, withoutCondition, type JobStatus } from "./job-status.ts";
import type { JobPolicy, PodFact, Snapshot } from "./snapshot.ts";
import { wasSaidLately, transitionConditions } from "./transition-conditions.ts";

/**
 * The status with what keeps pods from starting or going on, in the words of whoever schedules and runs them; without it as soon as nothing does. Words that change are
 * written again only from time to time: a kubelet that cannot pull an image says two things in turn.
 */
export function noteTroubles(snapshot: Snapshot, status: JobStatus, policy: JobPolicy): JobStatus {
  const { nowMs } = snapshot;
  const troubled = snapshot.replicas.flatMap(({ slots }) =>
    slots.flatMap((pod) => (pod !== undefined && isTroubled(pod, status) ? [pod] : [])),
  );
  const [first] = troubled;
  if (first?.trouble === undefined) return withoutCondition(status, "PodsWaiting");
  const before = conditionOf(status, "PodsWaiting");
  if (before !== undefined && wasSaidLately(before, nowMs, policy)) return status;
  const { reason, message: said } = first.trouble;
  const more = troubled.length - 1;
  const others = more === 0 ? "" : `; ${more} more ${more === 1 ? "pod waits" : "pods wait"}`;
  const message = `pod ${first.name}: ${reason}${said && `: ${said}`}${others}`;
  return transitionConditions(status, { type: "PodsWaiting", status: "True", reason, message }, nowMs);
}

/** What is on its way out need not start any more. */
function isTroubled(pod: PodFact, { attempt }: JobStatus): boolean {
  return pod.trouble !== undefined && !pod.deleting && pod.attempt === attempt;
}
