import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { awaitsPlacement, decidePlacement } from "./decide-placement.ts";

export type PodEvent = {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly action: string;
  readonly message: string;
  readonly atMs: number;
};

/** What a pass needs from outside. `bind` and `saveStatus` resolve with false when the pod has changed or gone meanwhile. */
export type SchedulingDeps = {
  readonly now: () => number;
  readonly pods: () => readonly V1Pod[];
  readonly nodes: () => readonly V1Node[];
  readonly bind: (pod: V1Pod, node: string) => Promise<boolean>;
  readonly saveStatus: (pod: V1Pod) => Promise<boolean>;
  readonly record: (pod: V1Pod, event: PodEvent) => Promise<void>;
};

/** Makes the pass: every waiting pod in the order of creation, each judged with the pods that were bound before it, also those whose binding the cache does not show yet. */
export function schedulingPass(deps: SchedulingDeps): () => Promise<void> {
  const bound = new Map<string, string>();
  const told = new Map<string, string>();
  return async () => {
    const seen = deps.pods();
    forget(bound, seen, (pod) => pod.spec?.nodeName !== undefined);
    forget(told, seen, (pod) => !awaitsPlacement(pod));
    const pods = seen.map((pod) => assume(pod, bound.get(uidOf(pod))));
    for (const [index, pod] of [...pods.entries()].sort(([, a], [, b]) => byCreation(a, b))) {
      if (!awaitsPlacement(pod)) continue;
      const placement = decidePlacement(pod, deps.nodes(), pods);
      if (placement.do === "wait") {
        if (told.get(uidOf(pod)) === placement.message) continue;
        if (await explainWait(deps, pod, placement.message)) told.set(uidOf(pod), placement.message);
        continue;
      }
      if (!(await deps.bind(pod, placement.node))) continue;
      bound.set(uidOf(pod), placement.node);
      pods[index] = assume(pod, placement.node);
      await deps.record(pod, {
        type: "Normal",
        reason: "Scheduled",
        action: "Binding",
        message: `Successfully assigned ${pod.metadata?.namespace ?? ""}/${pod.metadata?.name ?? ""} to ${placement.node}`,
        atMs: deps.now(),
      });
    }
  };
}

/** Says why the pod waits, in its condition and in an event. False when the pod has changed meanwhile: it is judged again. */
async function explainWait(deps: SchedulingDeps, pod: V1Pod, message: string): Promise<boolean> {
  const changed = unschedulable(pod, message, deps.now());
  if (changed === undefined) return true;
  if (!(await deps.saveStatus(changed))) return false;
  await deps.record(pod, {
    type: "Warning",
    reason: "FailedScheduling",
    action: "Scheduling",
    message,
    atMs: deps.now(),
  });
  return true;
}

/** The pod with the condition, or undefined when it says so already. */
function unschedulable(pod: V1Pod, message: string, nowMs: number): V1Pod | undefined {
  const conditions = pod.status?.conditions ?? [];
  const old = conditions.find((each) => each.type === "PodScheduled");
  if (old?.status === "False" && old.message === message) return undefined;
  const condition = {
    type: "PodScheduled",
    status: "False",
    reason: "Unschedulable",
    message,
    lastTransitionTime: old?.status === "False" ? (old.lastTransitionTime ?? new Date(nowMs)) : new Date(nowMs),
  };
  const others = conditions.filter((each) => each.type !== "PodScheduled");
  return { ...pod, status: { ...pod.status, conditions: [...others, condition] } };
}

function forget(map: Map<string, string>, pods: readonly V1Pod[], isOver: (pod: V1Pod) => boolean): void {
  const waiting = new Set(pods.filter((pod) => !isOver(pod)).map(uidOf));
  for (const uid of map.keys()) if (!waiting.has(uid)) map.delete(uid);
}

function assume(pod: V1Pod, node: string | undefined): V1Pod {
  return node === undefined || pod.spec === undefined ? pod : { ...pod, spec: { ...pod.spec, nodeName: node } };
}

function byCreation(a: V1Pod, b: V1Pod): number {
  const created = (pod: V1Pod): number => new Date(pod.metadata?.creationTimestamp ?? 0).getTime();
  return created(a) - created(b) || (uidOf(a) < uidOf(b) ? -1 : 1);
}

function uidOf(pod: V1Pod): string {
  return pod.metadata?.uid ?? "";
}
