import {
  parseTimeMs,
  type ContainerFacts,
  type ContainerStatusFacts,
  type PodFacts,
  type Termination,
} from "./pod-facts.ts";

export type Health = "UNKNOWN" | "READY" | "NOT_READY" | "SUCCEEDED" | "FAILED";

type HealthPolicy = {
  /** Maximum milliseconds that errors with images, configuration or scheduling may last before the pod counts as failed. */
  readonly startGraceMs: number;
  readonly nowMs: number;
  /** Name of the container that determines the health of the pod; absent: the first container. */
  readonly mainContainer?: string;
  /**
   * Since when the node of the pod has been missing. No kubelet reports the end of the pod: it is lost once the grace has passed, in which the node may come
   * back.
   */
  readonly nodeGone?: { readonly sinceMs: number; readonly graceMs: number };
};

export type PodVerdict = {
  readonly health: Health;
  /** Stable word: that of Kubernetes if one exists (`ImagePullBackOff`, `Unschedulable`, `Evicted`), empty if no reason exists. */
  readonly reason: string;
  /** Explanation for users. */
  readonly message: string;
  /** The exit code of the main container, once it has ended. */
  readonly exitCode?: number;
  /** Time at which the verdict becomes FAILED without any further event. */
  readonly reevaluateAtMs?: number;
};

type Judged = {
  readonly pod: PodFacts;
  readonly policy: HealthPolicy;
  readonly name: string;
  readonly main: ContainerFacts | undefined;
  readonly status: ContainerStatusFacts | undefined;
};

/** The rules in their order: the first one with a verdict decides. */
const RULES: readonly ((judged: Judged) => PodVerdict | undefined)[] = [
  beingDeleted,
  nodeLost,
  endedFromOutside,
  mainEnded,
  phaseSucceeded,
  initContainerFailed,
  phaseFailed,
  waiting,
  running,
  notStarted,
];

/**
 * Judges the health of a pod by its main container; other containers do not matter while the pod exists. An end is an outcome only if the kubelet does not
 * restart the container. Under restartPolicy Never, every end is an outcome, also the previous end of a container that was restarted by accident. Under
 * OnFailure, only an end with 0 is an outcome; under Always, no end is. A restarted container is judged by its current state, so that the verdict does not
 * depend on observing the moment between two runs; CrashLoopBackOff ends the wait. A container that cannot start (StartError) has failed under any policy. A
 * pod that is being deleted, or whose node is gone, has failed unless its main container had succeeded before. Later reports, such as an exit with 0 after
 * SIGTERM, are no success.
 */
export function decidePodHealth(pod: PodFacts, policy: HealthPolicy): PodVerdict {
  const containers = pod.spec?.containers ?? [];
  const name = policy.mainContainer ?? containers[0]?.name ?? "";
  const main = containers.find((container) => container.name === name);
  const status = pod.status?.containerStatuses?.find((container) => container.name === name);
  const judged: Judged = { pod, policy, name, main, status };
  for (const rule of RULES) {
    const verdict = rule(judged);
    if (verdict !== undefined) return withoutNode(verdict, judged);
  }
  return withoutNode({ health: "UNKNOWN", reason: "", message: "" }, judged);
}

/** If the node is missing, the last reported state is outdated; only an end that was reported earlier counts. */
function withoutNode(verdict: PodVerdict, { pod, policy: { nodeGone, nowMs } }: Judged): PodVerdict {
  if (nodeGone === undefined || verdict.health === "SUCCEEDED" || verdict.health === "FAILED") return verdict;
  const endMs = nodeGone.sinceMs + nodeGone.graceMs;
  if (nowMs >= endMs) return failed("NodeLost", `${getNode(pod)} is gone`);
  return { ...verdict, reevaluateAtMs: Math.min(endMs, verdict.reevaluateAtMs ?? endMs) };
}

function beingDeleted(judged: Judged): PodVerdict | undefined {
  const { metadata } = judged.pod;
  const deletedMs = parseTimeMs(metadata?.deletionTimestamp);
  if (deletedMs === undefined) return undefined;
  const disruption = findDisruption(judged.pod);
  // The timestamp is the end of the grace period, not the moment of the request.
  const askedMs = deletedMs - (metadata?.deletionGracePeriodSeconds ?? 0) * 1000;
  const { reason = "Deleted", message = "the pod is being deleted", atMs = askedMs } = disruption ?? {};
  return endedBy(judged, Math.min(askedMs, atMs), { reason, message });
}

function nodeLost(judged: Judged): PodVerdict | undefined {
  const { phase, reason, message } = judged.pod.status ?? {};
  if (phase !== "Unknown" && reason !== "NodeLost") return undefined;
  return endedBy(judged, Infinity, {
    reason: "NodeLost",
    message: message ?? `${getNode(judged.pod)} does not answer`,
  });
}

/** Evictions, deadlines, refusals of the kubelet, missing nodes: the pod has failed as a whole, and its status names the reason or the disruption. */
function endedFromOutside(judged: Judged): PodVerdict | undefined {
  const { phase, reason = "", message = "" } = judged.pod.status ?? {};
  if (phase !== "Failed") return undefined;
  if (reason !== "") return failed(reason, message, judged.status?.state?.terminated);
  const disruption = findDisruption(judged.pod);
  return disruption && endedBy(judged, disruption.atMs ?? Infinity, disruption);
}

function mainEnded({ pod, name, status }: Judged): PodVerdict | undefined {
  const end = status?.state?.terminated ?? (isNeverRestarted(pod) ? status?.lastState?.terminated : undefined);
  if (end === undefined) return undefined;
  if (pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed" || !isRestarted(pod, end)) {
    return outcome(end);
  }
  const { reason = "Restarting" } = end;
  return {
    health: "NOT_READY",
    reason,
    message: `container ${name} ended with ${end.exitCode} and is restarted`,
    exitCode: end.exitCode,
  };
}

function phaseSucceeded({ pod }: Judged): PodVerdict | undefined {
  return pod.status?.phase === "Succeeded" ? { health: "SUCCEEDED", reason: "", message: "" } : undefined;
}

/** Init containers matter until the main container runs; the later end of a sidecar is not the end of the pod. */
function initContainerFailed({ pod, policy, status: main }: Judged): PodVerdict | undefined {
  if (main?.state?.running !== undefined) return undefined;
  for (const { name, state, lastState } of pod.status?.initContainerStatuses ?? []) {
    const beside = pod.spec?.initContainers?.find((container) => container.name === name)?.restartPolicy === "Always";
    const end = state?.terminated;
    if (end !== undefined && end.exitCode !== 0 && isNeverRestarted(pod) && !beside) {
      return failed("InitContainerError", `init container ${name} ${describeEnd(end)}`);
    }
    const verdict = judgeWaiting(pod, policy, { name: `init container ${name}`, state, lastState });
    if (verdict?.health === "FAILED" || verdict?.reevaluateAtMs !== undefined) return verdict;
  }
  return undefined;
}

function phaseFailed({ pod }: Judged): PodVerdict | undefined {
  return pod.status?.phase === "Failed" ? failed("Failed", pod.status.message ?? "the pod has failed") : undefined;
}

function waiting({ pod, policy, name, status }: Judged): PodVerdict | undefined {
  if (status === undefined) return undefined;
  return judgeWaiting(pod, policy, { name: `container ${name}`, state: status.state, lastState: status.lastState });
}

function running({ main, name, status }: Judged): PodVerdict | undefined {
  if (status?.state?.running === undefined) return undefined;
  const probed = main?.readinessProbe !== undefined || main?.startupProbe !== undefined;
  if (!probed || status.ready === true) return { health: "READY", reason: "", message: "" };
  return { health: "NOT_READY", reason: "ProbeFailing", message: `the probe of container ${name} has not succeeded` };
}

/** The main container has no status yet. */
function notStarted({ pod, policy, name, main, status }: Judged): PodVerdict | undefined {
  if (status !== undefined) return undefined;
  if (main === undefined && pod.spec !== undefined) {
    const message = `the pod has no container "${name}"`;
    return withGrace(pod, policy, { health: "NOT_READY", reason: "MainContainerMissing", message });
  }
  const scheduled = pod.status?.conditions?.find((condition) => condition.type === "PodScheduled");
  if (scheduled?.status === "False") {
    const { reason = "Unschedulable", message = "" } = scheduled;
    const verdict: PodVerdict = { health: "NOT_READY", reason, message };
    return reason === "Unschedulable" ? withGrace(pod, policy, verdict) : verdict;
  }
  const count = pod.status?.containerStatuses?.length ?? 0;
  return { health: "NOT_READY", reason: "Pending", message: `${count} container statuses, none of "${name}"` };
}

/** The reason why a container waits; undefined when it does not wait. */
function judgeWaiting(
  pod: PodFacts,
  policy: HealthPolicy,
  container: {
    readonly name: string;
    readonly state: ContainerStatusFacts["state"];
    readonly lastState: ContainerStatusFacts["lastState"];
  },
): PodVerdict | undefined {
  const wait = container.state?.waiting;
  if (wait === undefined) return undefined;
  const { reason = "", message = "" } = wait;
  const text = message === "" ? `${container.name} waits` : `${container.name}: ${message}`;
  const last = container.lastState?.terminated;
  if (reason === "CrashLoopBackOff") return failed(reason, text, last);
  const verdict: PodVerdict = { health: "UNKNOWN", reason, message: text };
  return isTrouble(reason) ? withGrace(pod, policy, verdict, parseTimeMs(last?.finishedAt)) : verdict;
}

/** Reasons for waiting that do not end by themselves. The kubelet has no list of them, but a pattern for their names. */
function isTrouble(reason: string): boolean {
  return /^Err|^Invalid|Error$|BackOff$|Unavailable$|Failed$/.test(reason);
}

/** The verdict until the start grace has passed, counted from the last success; FAILED from then on. */
function withGrace(pod: PodFacts, policy: HealthPolicy, verdict: PodVerdict, lastEndMs?: number): PodVerdict {
  const scheduled = pod.status?.conditions?.find(
    (condition) => condition.type === "PodScheduled" && condition.status === "True",
  );
  const times = [
    parseTimeMs(pod.metadata?.creationTimestamp),
    parseTimeMs(pod.status?.startTime),
    parseTimeMs(scheduled?.lastTransitionTime),
    lastEndMs,
  ].filter((time) => time !== undefined);
  const sinceMs = times.length === 0 ? policy.nowMs : Math.max(...times);
  const endMs = sinceMs + policy.startGraceMs;
  if (policy.nowMs >= endMs && times.length > 0) return { ...verdict, health: "FAILED" };
  return { ...verdict, reevaluateAtMs: endMs };
}

/** Returns the outcome of a pod that an external cause ended at `atMs`: that of its main container if the container had ended by then. */
function endedBy(
  judged: Judged,
  atMs: number,
  cause: { readonly reason: string; readonly message: string },
): PodVerdict {
  const end = judged.status?.state?.terminated;
  if (end === undefined) {
    if (judged.pod.status?.phase === "Succeeded") return { health: "SUCCEEDED", reason: "", message: "" };
    return failed(cause.reason, cause.message);
  }
  const finishedMs = parseTimeMs(end.finishedAt);
  if ((finishedMs ?? 0) <= atMs && !isRestarted(judged.pod, end)) return outcome(end);
  return failed(cause.reason, cause.message, end);
}

function outcome(end: Termination): PodVerdict {
  if (end.exitCode === 0) return { health: "SUCCEEDED", reason: end.reason ?? "", message: "", exitCode: 0 };
  return failed(end.reason ?? "Error", end.message ?? "", end);
}

function failed(reason: string, message: string, end?: Termination): PodVerdict {
  return { health: "FAILED", reason, message, ...(end === undefined ? {} : { exitCode: end.exitCode }) };
}

function describeEnd(end: Termination): string {
  const { exitCode, reason, message } = end;
  return [`ended with ${exitCode}`, reason, message].filter((part) => part !== undefined && part !== "").join(": ");
}

/** Whether the kubelet never restarts the containers. A pod without a policy counts as Never; the API server always sets one. */
function isNeverRestarted(pod: PodFacts): boolean {
  return (pod.spec?.restartPolicy ?? "Never") === "Never";
}

function isRestarted(pod: PodFacts, end: Termination): boolean {
  if (end.reason === "StartError" || end.reason === "ContainerCannotRun") return false;
  if (isNeverRestarted(pod)) return false;
  return pod.spec?.restartPolicy === "Always" || end.exitCode !== 0;
}

type Disruption = { readonly reason: string; readonly message: string; readonly atMs: number | undefined };

/** The disruption that ends the pod independently of its owner: an eviction, a preemption, a missing node. */
function findDisruption(pod: PodFacts): Disruption | undefined {
  const condition = pod.status?.conditions?.find(
    ({ type, status }) => type === "DisruptionTarget" && status === "True",
  );
  if (condition === undefined) return undefined;
  const { reason = "Disrupted", message = "the pod is disrupted", lastTransitionTime } = condition;
  const node = pod.spec?.nodeName;
  return {
    reason,
    message: node === undefined ? message : `on node ${node}: ${message}`,
    atMs: parseTimeMs(lastTransitionTime),
  };
}

function getNode({ spec }: PodFacts): string {
  return spec?.nodeName === undefined ? "the node of the pod" : `node ${spec.nodeName} of the pod`;
}
