import { isRejection } from "@muster/health";
import { describeContainerEnd } from "./describe-end.ts";
import type { FailureRule, JobSpec, ReplicaSpec } from "./job.ts";
import type { UncountedReason } from "./job-status.ts";
import type { PodFact } from "./snapshot.ts";

/** The consequence of a failed pod for itself or its job. `counts` means that the failure counts against backoffLimit. */
type FailureVerdict =
  | { readonly action: "fail-job"; readonly reason: FailReason; readonly message: string }
  | { readonly action: "restart-pod"; readonly counts: false; readonly because: IgnoredReason }
  | {
      readonly action: "restart-pod" | "restart-job";
      readonly counts: true;
      readonly because: "failure-policy" | "retryable-exit-code" | "restart-policy";
    };

export type FailReason = "PodFailed" | "PermanentExitCode" | "FailurePolicy";
type IgnoredReason = Exclude<UncountedReason, "machine-lost">;

/** Exit codes from this one on mean that a signal ended the process, usually for an outside cause. */
const FIRST_SIGNAL_CODE = 128;
/**
 * Reasons of the kubelet and of node controllers for pods that were ended because of the node. `Evicted` is not in the set: the kubelet also uses it for a pod
 * over its own storage limit. Only the other evicted pods have the condition DisruptionTarget.
 */
const DISRUPTIONS: ReadonlySet<string> = new Set(["NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"]);

/**
 * Decides about one failed pod: by the first failure rule that matches, then by the restart policy of its type. A preempted, evicted or lost pod has not failed
 * by itself: it is recreated under every restart policy, and does not count.
 */
export function decidePodFailure(pod: PodFact, replica: ReplicaSpec, spec: JobSpec): FailureVerdict {
  if (replica.failuresIgnored) return { action: "restart-pod", counts: false, because: "failures-ignored" };
  const rule = spec.failurePolicy.find((each) => matches(each, pod, replica));
  if (rule !== undefined) return byRule(rule, pod, replica);
  if (isDisrupted(pod)) return { action: "restart-pod", counts: false, because: "disrupted" };
  const code = exitCode(pod, replica.mainContainer);
  switch (replica.restartPolicy) {
    case "Never":
      return { action: "fail-job", reason: "PodFailed", message: describeContainerEnd(pod, replica.mainContainer) };
    case "Always":
    case "OnFailure":
      return { action: "restart-pod", counts: true, because: "restart-policy" };
    case "ExitCode":
      // Without a code the container never ran, and with 0 it was stopped: a retry may succeed, and backoffLimit limits it.
      return code === undefined || code === 0 || isRetryable(code, spec)
        ? { action: "restart-pod", counts: true, because: "retryable-exit-code" }
        : {
            action: "fail-job",
            reason: "PermanentExitCode",
            message: describeContainerEnd(pod, replica.mainContainer),
          };
  }
}

/** Whether an outside cause ended the pod. */
export function isDisrupted(pod: PodFact): boolean {
  if (DISRUPTIONS.has(pod.reason) || isRejection(pod.reason)) return true;
  return pod.conditions.some(({ type, status }) => type === "DisruptionTarget" && status === "True");
}

/**
 * Whether the pod ended by itself. The end of a pod that was deleted while it ran is unknown. A process that exits after a signal or an announced preemption
 * has not finished.
 */
export function hasEndedByItself({ phase, deleting, endedFirst, preempted }: PodFact): boolean {
  return (phase === "Succeeded" || phase === "Failed") && !preempted && (!deleting || endedFirst);
}

/**
 * Whether the pod ended by itself and its main container succeeded. A failed pod may qualify, because another container such as a sidecar does not matter. A
 * pod with its own reason for the end was stopped.
 */
export function hasMainSucceeded(pod: PodFact, replica: ReplicaSpec): boolean {
  if (!hasEndedByItself(pod)) return false;
  return (
    pod.phase === "Succeeded" || (pod.reason === "" && !isDisrupted(pod) && exitCode(pod, replica.mainContainer) === 0)
  );
}

function byRule(rule: FailureRule, pod: PodFact, replica: ReplicaSpec): FailureVerdict {
  switch (rule.action) {
    case "FailJob":
      return {
        action: "fail-job",
        reason: "FailurePolicy",
        message: `${describeContainerEnd(pod, replica.mainContainer)}, and a failure rule has the action FailJob`,
      };
    case "RestartPod":
      return { action: "restart-pod", counts: true, because: "failure-policy" };
    case "RestartJob":
      return { action: "restart-job", counts: true, because: "failure-policy" };
    case "Ignore":
      return { action: "restart-pod", counts: false, because: "failure-policy" };
  }
}

function matches({ replicaTypes, on }: FailureRule, pod: PodFact, replica: ReplicaSpec): boolean {
  if (replicaTypes.length > 0 && !replicaTypes.includes(replica.type)) return false;
  if ("podCondition" in on) {
    return pod.conditions.some(({ type, status }) => type === on.podCondition && status === on.status);
  }
  const code = exitCode(pod, on.container ?? replica.mainContainer);
  if (code === undefined || code === 0) return false;
  return on.values.includes(code) === (on.exitCodes === "In");
}

function exitCode(pod: PodFact, container: string): number | undefined {
  return pod.exits.find((exit) => exit.container === container)?.code;
}

function isRetryable(code: number, { exitCodes }: JobSpec): boolean {
  if (exitCodes.permanent.includes(code)) return false;
  return exitCodes.retryable.includes(code) || code >= FIRST_SIGNAL_CODE;
}
