import type { V1Pod } from "@kubernetes/client-node";
import {
  type Ending,
  hasFailedInit,
  isInitialized,
  isPassed,
  isTerminal,
  areMainContainersEnded,
  computePodPhase,
} from "./pod-phase.ts";
import { computeBackoffMs, type ContainerRecord } from "./transition-container.ts";

export type PodStep =
  | { readonly kind: "start"; readonly container: string; readonly because: "new" | "restart" | "retry" }
  | {
      readonly kind: "hold";
      readonly container: string;
      readonly delayMs: number;
      readonly untilMs: number;
      readonly because: "crash-loop" | "image-pull";
    }
  | {
      readonly kind: "signal";
      readonly container: string;
      readonly signal: "SIGTERM" | "SIGKILL";
      readonly because: Ending["because"];
    }
  | {
      readonly kind: "wait";
      readonly untilMs: number;
      readonly because: "crash-loop" | "not-yet" | "grace" | "deadline";
    }
  | { readonly kind: "delete"; readonly because: "ended" };

export type PodSnapshot = {
  readonly pod: V1Pod;
  /** Init containers first, in the order of the spec. */
  readonly containers: readonly ContainerRecord[];
  readonly startedAtMs: number;
  readonly ending: Ending | undefined;
  readonly nowMs: number;
};

/** Time between SIGTERM and SIGKILL for a pod that disappeared from the API without a grace period. */
export const GONE_GRACE_MS = 1_000;
const DEFAULT_GRACE_SECONDS = 30;

/** Decides whether the pod has to end, and by when. `pod` is undefined if the API server no longer has it. A later grace period can only shorten the first. */
export function decideEnding(pod: V1Pod | undefined, snapshot: Omit<PodSnapshot, "pod">): Ending | undefined {
  const { ending, nowMs } = snapshot;
  const wished = decideDesiredEnding(pod, snapshot);
  if (wished === undefined) return ending;
  const killAtMs = Math.min(ending?.killAtMs ?? Infinity, nowMs + wished.graceMs);
  // The status shows the first reason. A deleted pod has no status.
  const because = ending === undefined || wished.because === "gone" ? wished.because : ending.because;
  return { because, killAtMs };
}

function decideDesiredEnding(
  pod: V1Pod | undefined,
  { containers, startedAtMs, ending, nowMs }: Omit<PodSnapshot, "pod">,
): { because: Ending["because"]; graceMs: number } | undefined {
  if (pod === undefined) return { because: "gone", graceMs: GONE_GRACE_MS };
  const ownGraceMs = (pod.spec?.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS) * 1000;
  if (pod.metadata?.deletionTimestamp !== undefined) {
    const seconds = pod.metadata.deletionGracePeriodSeconds;
    return { because: "deleted", graceMs: seconds === undefined ? ownGraceMs : seconds * 1000 };
  }
  if (isTerminal(computePodPhase(pod, containers, ending))) {
    // The kubelet reports an end only when nothing runs, so another client has declared this pod ended.
    const runs = containers.some((each) => each.state.is === "running");
    return runs ? { because: "given-up", graceMs: ownGraceMs } : undefined;
  }
  const sidecarsRun = containers.some((each) => each.kind === "sidecar" && each.state.is === "running");
  if (sidecarsRun && (areMainContainersEnded(pod, containers) || hasFailedInit(pod, containers))) {
    return { because: "completed", graceMs: ownGraceMs };
  }
  const deadlineMs = computeDeadline(pod, startedAtMs);
  if (deadlineMs !== undefined && nowMs >= deadlineMs) return { because: "deadline", graceMs: ownGraceMs };
  return undefined;
}

/** Plans the next steps for one pod. Nothing starts in a pod that has to end; after the steps, the same snapshot plans at most a wait. */
export function planPod(snapshot: PodSnapshot): PodStep[] {
  if (snapshot.ending !== undefined) return planEnding(snapshot, snapshot.ending);
  const { pod, containers, startedAtMs, ending } = snapshot;
  if (isTerminal(computePodPhase(pod, containers, ending))) return [];
  const steps = planRunning(snapshot);
  const deadlineMs = computeDeadline(pod, startedAtMs);
  if (deadlineMs === undefined) return steps;
  return [...steps, { kind: "wait", untilMs: deadlineMs, because: "deadline" }];
}

function planEnding({ pod, containers, nowMs }: PodSnapshot, ending: Ending): PodStep[] {
  const steps: PodStep[] = [];
  const running = containers.filter((each) => each.state.is === "running");
  // Sidecars serve the others to their end, and then each other: the one that started last ends first.
  const others = running.filter((each) => each.kind !== "sidecar");
  const first = others.length > 0 ? others : running.slice(-1);
  const turn = nowMs >= ending.killAtMs ? running : first;
  for (const container of turn) steps.push(...planEnd(container, ending, nowMs));
  const isRunning = containers.some((each) => each.state.is === "running");
  const isDeleted = pod.metadata?.deletionTimestamp !== undefined;
  if (!isRunning && isDeleted && ending.because !== "gone" && ending.because !== "stopping")
    steps.push({ kind: "delete", because: "ended" });
  return steps;
}

/** Plans SIGTERM, a pause and SIGKILL, each once. */
function planEnd({ name, signalled }: ContainerRecord, { killAtMs, because }: Ending, nowMs: number): PodStep[] {
  const steps: PodStep[] = [];
  const signal = nowMs >= killAtMs ? "SIGKILL" : "SIGTERM";
  if (signalled !== "SIGKILL" && signalled !== signal) steps.push({ kind: "signal", container: name, signal, because });
  if (signal === "SIGTERM") steps.push({ kind: "wait", untilMs: killAtMs, because: "grace" });
  return steps;
}

function planRunning({ pod, containers, nowMs }: PodSnapshot): PodStep[] {
  const policy = pod.spec?.restartPolicy ?? "Always";
  if (isInitialized(containers)) {
    return containers
      .filter((container) => container.kind !== "init")
      .flatMap((container) => planContainer(container, container.kind === "sidecar" ? "Always" : policy, nowMs));
  }
  const steps: PodStep[] = [];
  for (const container of containers) {
    if (container.kind === "main") break;
    const own = container.kind === "sidecar" || policy === "Always" ? describeRestart(container) : policy;
    if (!(container.kind === "init" && isPassed(container))) steps.push(...planContainer(container, own, nowMs));
    if (!isPassed(container)) break;
  }
  return steps;
}

function describeRestart({ kind }: ContainerRecord): string {
  return kind === "sidecar" ? "Always" : "OnFailure";
}

function planContainer(container: ContainerRecord, policy: string, nowMs: number): PodStep[] {
  const { name, state } = container;
  switch (state.is) {
    case "running":
      return [];
    case "waiting": {
      const isCrashLoop = state.reason === "CrashLoopBackOff";
      const { retryAtMs } = state;
      if (retryAtMs !== undefined && nowMs < retryAtMs) {
        if (state.reason === "ErrImagePull") {
          const delayMs = retryAtMs - nowMs;
          return [{ kind: "hold", container: name, delayMs, untilMs: retryAtMs, because: "image-pull" }];
        }
        return [{ kind: "wait", untilMs: retryAtMs, because: isCrashLoop ? "crash-loop" : "not-yet" }];
      }
      const because = isCrashLoop ? "restart" : retryAtMs === undefined ? "new" : "retry";
      return [{ kind: "start", container: name, because }];
    }
    case "ended": {
      if (!canRestart(policy, state.run.exitCode)) return [];
      const delayMs = computeBackoffMs(container.restartsInARow);
      const untilMs = state.run.finishedAtMs + delayMs;
      if (nowMs >= untilMs) return [{ kind: "start", container: name, because: "restart" }];
      return [
        { kind: "hold", container: name, delayMs, untilMs, because: "crash-loop" },
        { kind: "wait", untilMs, because: "crash-loop" },
      ];
    }
  }
}

/** Returns whether a container with this exit code is restarted. */
export function canRestart(policy: string, exitCode: number): boolean {
  return policy === "Always" || (policy === "OnFailure" && exitCode !== 0);
}

function computeDeadline(pod: V1Pod, startedAtMs: number): number | undefined {
  const seconds = pod.spec?.activeDeadlineSeconds;
  return seconds === undefined ? undefined : startedAtMs + seconds * 1000;
}
