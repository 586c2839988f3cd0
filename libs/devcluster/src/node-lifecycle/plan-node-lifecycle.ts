import type { V1Node, V1NodeCondition, V1Pod, V1Taint } from "@kubernetes/client-node";
import { tolerates } from "../scheduler/tolerations.ts";

/** What is known of one node when it is judged. */
export type NodeFacts = {
  readonly node: V1Node;
  readonly pods: readonly V1Pod[];
  /** Since when nothing was heard: no lease renewed, no status told. */
  readonly heardAtMs: number;
  /** Since when each taint with effect NoExecute was seen, by `taintKey`. */
  readonly taintedAtMs: ReadonlyMap<string, number>;
};

export type NodeStep =
  | {
      readonly do: "mark-unknown";
      readonly node: string;
      readonly conditions: readonly V1NodeCondition[];
      readonly because: "silent";
    }
  | {
      readonly do: "set-taints";
      readonly node: string;
      readonly taints: readonly V1Taint[];
      readonly resourceVersion: string;
      readonly because: "ready" | "not-ready" | "unreachable";
    }
  | { readonly do: "mark-pod-unready"; readonly pod: V1Pod; readonly because: "not-ready" | "unreachable" }
  | { readonly do: "evict"; readonly pod: V1Pod; readonly taint: string; readonly because: "taint" }
  | { readonly do: "wait"; readonly untilMs: number; readonly because: "grace" | "toleration" };

export const NOT_READY = "node.kubernetes.io/not-ready";
export const UNREACHABLE = "node.kubernetes.io/unreachable";
const CONDITIONS = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/** What has to be done about one node and the pods on it. The same facts after the steps were done plan no more than waits. */
export function planNodeLifecycle(facts: NodeFacts, policy: { readonly graceMs: number }, nowMs: number): NodeStep[] {
  const { node, pods, heardAtMs } = facts;
  const name = node.metadata?.name ?? "";
  const steps: NodeStep[] = [];
  const dueMs = heardAtMs + policy.graceMs;
  const told = node.status?.conditions?.find((each) => each.type === "Ready")?.status;
  const isSilent = nowMs >= dueMs;
  if (!isSilent) steps.push({ do: "wait", untilMs: dueMs, because: "grace" });
  const status = isSilent ? "Unknown" : told;
  if (isSilent && told !== "Unknown") {
    steps.push({ do: "mark-unknown", node: name, conditions: unknownConditions(node, nowMs), because: "silent" });
  }
  const because = status === "True" ? "ready" : status === "Unknown" ? "unreachable" : "not-ready";
  const taints = withStateTaints(node.spec?.taints ?? [], because, nowMs);
  const { resourceVersion = "" } = node.metadata ?? {};
  if (taints !== undefined) steps.push({ do: "set-taints", node: name, taints, resourceVersion, because });
  if (because !== "ready") {
    steps.push(...pods.filter(isCalledReady).map((pod) => ({ do: "mark-pod-unready", pod, because }) as const));
  }
  return [...steps, ...pods.flatMap((pod) => planEviction(pod, facts, nowMs))];
}

/** One name for a taint, whenever it was added. */
export function taintKey({ key, value = "", effect }: V1Taint): string {
  return `${key}=${value}:${effect}`;
}

/** The taints with the ones of this state and without those of the others; undefined when they are so already. */
function withStateTaints(
  taints: readonly V1Taint[],
  state: "ready" | "not-ready" | "unreachable",
  nowMs: number,
): V1Taint[] | undefined {
  const own = state === "ready" ? undefined : state === "not-ready" ? NOT_READY : UNREACHABLE;
  const kept = taints.filter(({ key }) => (key !== NOT_READY && key !== UNREACHABLE) || key === own);
  const missing = (["NoSchedule", "NoExecute"] as const).filter(
    (effect) => own !== undefined && !kept.some((taint) => taint.key === own && taint.effect === effect),
  );
  if (kept.length === taints.length && missing.length === 0) return undefined;
  const timeAdded = new Date(nowMs);
  return [...kept, ...missing.map((effect) => ({ key: own ?? "", effect, timeAdded }))];
}

function unknownConditions(node: V1Node, nowMs: number): V1NodeCondition[] {
  const old = node.status?.conditions ?? [];
  return CONDITIONS.map((type): V1NodeCondition => {
    const before = old.find((each) => each.type === type);
    const reason = before === undefined ? "NodeStatusNeverUpdated" : "NodeStatusUnknown";
    const message = before === undefined ? "Kubelet never posted node status." : "Kubelet stopped posting node status.";
    const heard = before?.lastHeartbeatTime ?? node.metadata?.creationTimestamp;
    return {
      type,
      status: "Unknown",
      reason,
      message,
      lastTransitionTime: new Date(nowMs),
      ...(heard === undefined ? {} : { lastHeartbeatTime: heard }),
    };
  });
}

/** A pod leaves at the first taint that it does not tolerate, or that it does not tolerate any longer. */
function planEviction(pod: V1Pod, { node, taintedAtMs }: NodeFacts, nowMs: number): NodeStep[] {
  if (pod.metadata?.deletionTimestamp !== undefined || isOver(pod)) return [];
  let leaves: { readonly atMs: number; readonly taint: string } | undefined;
  for (const taint of node.spec?.taints ?? []) {
    if (taint.effect !== "NoExecute") continue;
    const key = taintKey(taint);
    const atMs = (taintedAtMs.get(key) ?? nowMs) + toleratedMs(pod, taint);
    if (atMs < (leaves?.atMs ?? Infinity)) leaves = { atMs, taint: key };
  }
  if (leaves === undefined) return [];
  if (nowMs >= leaves.atMs) return [{ do: "evict", pod, taint: leaves.taint, because: "taint" }];
  return [{ do: "wait", untilMs: leaves.atMs, because: "toleration" }];
}

/** How long a pod tolerates a taint: the shortest of what its tolerations say, 0 without one, Infinity for ever. */
function toleratedMs(pod: V1Pod, taint: V1Taint): number {
  const tolerations = (pod.spec?.tolerations ?? []).filter((each) => tolerates(each, taint));
  if (tolerations.length === 0) return 0;
  return Math.min(...tolerations.map((each) => Math.max(0, each.tolerationSeconds ?? Infinity) * 1000));
}

function isCalledReady(pod: V1Pod): boolean {
  return pod.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

function isOver(pod: V1Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}
