import { decidePodFailure, hasMainSucceeded } from "./decide-pod-failure.ts";
import { isFinished, type JobStatus } from "./job-status.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";

/**
 * Whether the decided status contains all facts about the end of a pod. False while the spec, which defines the meaning of the end, is unreadable. Also false
 * while the end still has to restart the gang, because only the next attempt records the restart.
 */
export function isEndRecorded(pod: PodFact, spec: Snapshot["spec"], status: JobStatus): boolean {
  if (isFinished(status) || pod.attempt !== status.attempt || pod.preempted) return true;
  if ("problems" in spec) return false;
  const replica = spec.replicas.find(({ type }) => pod.component.replace(/-[^-]*$/, "") === type);
  if (replica === undefined || hasMainSucceeded(pod, replica)) return true;
  return decidePodFailure(pod, replica, spec).action !== "restart-job";
}
