import { decideFailure, endedWell } from "./decide-failure.ts";
import { isFinished, type JobStatus } from "./job-status.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";

/**
 * Whether the status, as a pass has decided it, has all that is to be known of the end of a pod. Not while the spec cannot be read, which says what the end means, and not
 * while the whole gang is still to be made anew because of it: its attempt is what tells of that.
 */
export function isEndRecorded(pod: PodFact, spec: Snapshot["spec"], status: JobStatus): boolean {
  if (isFinished(status) || pod.attempt !== status.attempt) return true;
  if ("problems" in spec) return false;
  const replica = spec.replicas.find(({ type }) => pod.component.replace(/-[^-]*$/, "") === type);
  if (replica === undefined || endedWell(pod, replica)) return true;
  return decideFailure(pod, replica, spec).action !== "restart-job";
}
