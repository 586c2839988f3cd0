import type { V1Pod, V1PodCondition } from "@kubernetes/client-node";
import type { ClusterState } from "./cluster-state.ts";
import { decidePlacement } from "./decide-placement.ts";
import type { SchedulingQueue } from "./scheduling-queue.ts";

export type PodEvent = {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly action: string;
  readonly message: string;
  readonly atMs: number;
};

/** The dependencies of a pass. `bind` and `saveCondition` resolve with false if the pod was changed or deleted meanwhile. */
export type SchedulingDeps = {
  readonly now: () => number;
  readonly state: ClusterState;
  readonly queue: SchedulingQueue;
  readonly bind: (pod: V1Pod, node: string) => Promise<boolean>;
  readonly saveCondition: (pod: V1Pod, condition: V1PodCondition) => Promise<boolean>;
  readonly record: (pod: V1Pod, event: PodEvent) => Promise<void>;
  readonly onError: (error: unknown, doing: string) => void;
};

/** Maximum number of pods in one pass, so that a pass never blocks the process for long. */
const PODS_PER_PASS = 50;

/** Places the due pods one by one, each with the earlier ones already counted. Resolves when all decisions are written. */
export async function runSchedulingPass(deps: SchedulingDeps): Promise<void> {
  const { state, queue } = deps;
  const acts: Promise<void>[] = [];
  for (const pod of queue.take(deps.now(), PODS_PER_PASS)) {
    const placement = decidePlacement(pod, state);
    if (placement.kind === "wait") {
      queue.failed(getUid(pod), "no-fit", deps.now());
      acts.push(attempt(deps, pod, () => explainWait(deps, pod, placement.message)));
      continue;
    }
    state.setPod(assume(pod, placement.node));
    acts.push(attempt(deps, pod, () => bind(deps, pod, placement.node)));
  }
  await Promise.all(acts);
}

/** A failure causes a retry of that pod, and does not affect the others. */
async function attempt(deps: SchedulingDeps, pod: V1Pod, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    deps.onError(error, `scheduling pod ${pod.metadata?.namespace ?? ""}/${pod.metadata?.name ?? ""}`);
    deps.queue.failed(getUid(pod), "conflict", deps.now());
  }
}

async function bind(deps: SchedulingDeps, pod: V1Pod, node: string): Promise<void> {
  let isBound = false;
  try {
    isBound = await deps.bind(pod, node);
  } finally {
    // A pod outside the queue is gone, or was observed as bound, whatever the answer was.
    if (!isBound && deps.queue.has(getUid(pod))) deps.state.removePod(getUid(pod));
  }
  if (!isBound) {
    deps.queue.failed(getUid(pod), "conflict", deps.now());
    return;
  }
  deps.queue.delete(getUid(pod));
  await deps.record(pod, {
    type: "Normal",
    reason: "Scheduled",
    action: "Binding",
    message: `Successfully assigned ${pod.metadata?.namespace ?? ""}/${pod.metadata?.name ?? ""} to ${node}`,
    atMs: deps.now(),
  });
}

/** Reports each new reason to wait in the pod's condition and in an event. */
async function explainWait(deps: SchedulingDeps, pod: V1Pod, message: string): Promise<void> {
  const condition = unschedulable(pod, message, deps.now());
  if (condition === undefined || !(await deps.saveCondition(pod, condition))) return;
  await deps.record(pod, {
    type: "Warning",
    reason: "FailedScheduling",
    action: "Scheduling",
    message,
    atMs: deps.now(),
  });
}

/** Returns undefined if the pod already has the condition. */
function unschedulable(pod: V1Pod, message: string, nowMs: number): V1PodCondition | undefined {
  const old = pod.status?.conditions?.find((each) => each.type === "PodScheduled");
  if (old?.status === "False" && old.message === message) return undefined;
  const since = old?.status === "False" ? old.lastTransitionTime : undefined;
  return {
    type: "PodScheduled",
    status: "False",
    reason: "Unschedulable",
    message,
    lastTransitionTime: since ?? new Date(nowMs),
  };
}

function assume(pod: V1Pod, node: string): V1Pod {
  return { ...pod, spec: { containers: [], ...pod.spec, nodeName: node } };
}

function getUid(pod: V1Pod): string {
  return pod.metadata?.uid ?? "";
}
