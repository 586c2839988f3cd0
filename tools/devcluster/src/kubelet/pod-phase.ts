import type { V1Pod } from "@kubernetes/client-node";
import { type ContainerRecord, hasSucceeded, findLastRun } from "./transition-container.ts";

export type Phase = "Pending" | "Running" | "Succeeded" | "Failed";

/** Why and by when a pod's processes have to end. */
export type Ending = {
  readonly because: "deleted" | "gone" | "deadline" | "given-up" | "stopping" | "completed";
  /** Time of SIGKILL. */
  readonly killAtMs: number;
};

/** An ended pod stays ended; one that has to end has ended once its last process has. */
export function computePodPhase(pod: V1Pod, containers: readonly ContainerRecord[], ending: Ending | undefined): Phase {
  const old = pod.status?.phase;
  if (old === "Succeeded" || old === "Failed") return old;
  const isRunning = containers.some((each) => each.state.is === "running");
  if (ending !== undefined && !isRunning) return endedPhase(containers, ending);
  if (hasFailedInit(pod, containers)) return "Failed";
  if (!isInitialized(containers)) return "Pending";

  const mains = containers.filter((each) => each.kind === "main");
  const waiting = mains.some((each) => each.state.is === "waiting" && each.last === undefined);
  if (waiting) return "Pending";
  if (isRunning || !areMainContainersEnded(pod, containers)) return "Running";
  return mains.every(hasSucceeded) ? "Succeeded" : "Failed";
}

/** Returns whether every init container has completed and every sidecar has started once; a later end of a sidecar does not change that. */
export function isInitialized(containers: readonly ContainerRecord[]): boolean {
  if (containers.some((each) => each.kind === "main" && each.runs > 0)) return true;
  return containers.every((each) => each.kind === "main" || isPassed(each));
}

/** Returns whether the next init container may start. */
export function isPassed(container: ContainerRecord): boolean {
  return container.kind === "sidecar" ? container.state.is === "running" : hasSucceeded(container);
}

/** Returns whether no main container runs or will run again. */
export function areMainContainersEnded(pod: V1Pod, containers: readonly ContainerRecord[]): boolean {
  const policy = pod.spec?.restartPolicy ?? "Always";
  const mains = containers.filter((each) => each.kind === "main");
  if (policy === "Always" || !mains.every((each) => each.state.is === "ended")) return false;
  return policy === "Never" || mains.every(hasSucceeded);
}

function endedPhase(containers: readonly ContainerRecord[], ending: Ending): Phase {
  if (ending.because === "deadline") return "Failed";
  // A sidecar ends on request, so its exit code does not count for the pod.
  return containers.every((each) => each.kind === "sidecar" || hasSucceeded(each)) ? "Succeeded" : "Failed";
}

/** With restartPolicy Never, a failed init container ends the pod. */
export function hasFailedInit(pod: V1Pod, containers: readonly ContainerRecord[]): boolean {
  if (pod.spec?.restartPolicy !== "Never") return false;
  return containers.some((each) => each.kind === "init" && (findLastRun(each)?.exitCode ?? 0) !== 0);
}

export function isTerminal(phase: string | undefined): boolean {
  return phase === "Succeeded" || phase === "Failed";
}
