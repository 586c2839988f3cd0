import { decidePodFailure, endedWell } from "./decide-pod-failure.ts";
import { isFinished, type JobStatus } from "./job-status.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";

/**
 * Whether the decided status contains everything about the end of a pod. False while the spec, which defines what the end means, cannot be read, and while
 * the whole gang is still to be restarted because of it: only the next attempt shows that.
 */
export function isEndRecorded(pod: PodFact, spec: Snapshot["spec"], status: JobStatus): boolean {
  if (isFinished(status) || pod.attempt !== status.attempt || pod.preempted) return true;
  if ("problems" in spec) return false;
  const replica = spec.replicas.find(({ type }) => pod.component.replace(/-[^-]*$/, "") === type);
  if (replica === undefined || endedWell(pod, replica)) return true;
  return decidePodFailure(pod, replica, spec).action !== "restart-job";
}
