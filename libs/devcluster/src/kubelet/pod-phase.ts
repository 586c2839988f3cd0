import type { V1Pod } from "@kubernetes/client-node";
import { type ContainerRecord, hasSucceeded, lastRun } from "./transition-container.ts";

export type Phase = "Pending" | "Running" | "Succeeded" | "Failed";

/** Why and until when a pod's processes have to end. */
export type Ending = {
  readonly because: "deleted" | "gone" | "deadline" | "given-up" | "stopping";
  /** SIGKILL from here on. */
  readonly killAtMs: number;
};

/** A pod that ended stays ended; one that has to end is over when its last process is. */
export function podPhase(pod: V1Pod, containers: readonly ContainerRecord[], ending: Ending | undefined): Phase {
  const old = pod.status?.phase;
  if (old === "Succeeded" || old === "Failed") return old;
  const isRunning = containers.some((each) => each.state.is === "running");
  if (ending !== undefined && !isRunning) return endedPhase(containers, ending);
  if (failedInit(pod, containers)) return "Failed";
  if (containers.some((each) => each.kind === "init" && !hasSucceeded(each))) return "Pending";

  const mains = containers.filter((each) => each.kind === "main");
  const waiting = mains.some((each) => each.state.is === "waiting" && each.last === undefined);
  if (waiting) return "Pending";
  if (isRunning) return "Running";
  const policy = pod.spec?.restartPolicy ?? "Always";
  if (policy === "Always") return "Running";
  if (mains.every(hasSucceeded)) return "Succeeded";
  return policy === "Never" ? "Failed" : "Running";
}

function endedPhase(containers: readonly ContainerRecord[], ending: Ending): Phase {
  if (ending.because === "deadline") return "Failed";
  return containers.every(hasSucceeded) ? "Succeeded" : "Failed";
}

/** With restartPolicy Never a failed init container is the end of the pod. */
export function failedInit(pod: V1Pod, containers: readonly ContainerRecord[]): boolean {
  if (pod.spec?.restartPolicy !== "Never") return false;
  return containers.some((each) => each.kind === "init" && (lastRun(each)?.exitCode ?? 0) !== 0);
}

export function isTerminal(phase: string | undefined): boolean {
  return phase === "Succeeded" || phase === "Failed";
}
