import type { V1Node, V1NodeCondition, V1Pod, V1Taint } from "@kubernetes/client-node";
import { isTolerated } from "@muster/resources";

/** The known facts about one node at its judgement. */
export type NodeFacts = {
  readonly node: V1Node;
  readonly pods: readonly V1Pod[];
  /** The last heartbeat: a renewed lease or a reported status. */
  readonly heardAtMs: number;
  /** Since when each taint with effect NoExecute was seen, by `buildTaintKey`. */
  readonly taintedAtMs: ReadonlyMap<string, number>;
};

export type NodeState = "ready" | "not-ready" | "unreachable";

export type NodeStep =
  | {
      readonly kind: "mark-unknown";
      readonly node: string;
      readonly conditions: readonly V1NodeCondition[];
      readonly because: "silent";
    }
  | {
      readonly kind: "set-taints";
      readonly node: string;
      readonly taints: readonly V1Taint[];
      readonly resourceVersion: string;
      readonly because: NodeState | "cordoned" | "uncordoned";
    }
  | { readonly kind: "mark-pod-unready"; readonly pod: V1Pod; readonly because: "not-ready" | "unreachable" }
  | { readonly kind: "evict"; readonly pod: V1Pod; readonly taint: string; readonly because: "taint" }
  | { readonly kind: "wait"; readonly untilMs: number; readonly because: "grace" | "toleration" };

export const NOT_READY = "node.kubernetes.io/not-ready";
export const UNREACHABLE = "node.kubernetes.io/unreachable";
export const UNSCHEDULABLE = "node.kubernetes.io/unschedulable";
const CONDITIONS = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/** Plans the steps for one node and the pods on it. The same facts after the steps plan no more than waits. */
export function planNodeLifecycle(facts: NodeFacts, policy: { readonly graceMs: number }, nowMs: number): NodeStep[] {
  const { node, pods, heardAtMs } = facts;
  const name = node.metadata?.name ?? "";
  const steps: NodeStep[] = [];
  const dueMs = heardAtMs + policy.graceMs;
  const reported = node.status?.conditions?.find((each) => each.type === "Ready")?.status;
  const isSilent = nowMs >= dueMs;
  if (!isSilent) steps.push({ kind: "wait", untilMs: dueMs, because: "grace" });
  const status = isSilent ? "Unknown" : reported;
  if (isSilent && reported !== "Unknown") {
    steps.push({ kind: "mark-unknown", node: name, conditions: unknownConditions(node, nowMs), because: "silent" });
  }
  const because = status === "True" ? "ready" : status === "Unknown" ? "unreachable" : "not-ready";
  steps.push(...planTaints(node, because, nowMs));
  if (because !== "ready") {
    steps.push(...pods.filter(isPodReady).map((pod) => ({ kind: "mark-pod-unready", pod, because }) as const));
  }
  return [...steps, ...pods.flatMap((pod) => planEviction(pod, facts, nowMs))];
}

/** Returns a key for a taint, independent of the time at which it was added. */
export function buildTaintKey({ key, value = "", effect }: V1Taint): string {
  return `${key}=${value}:${effect}`;
}

/** The taints that this controller sets and removes. Other taints belong to other clients. */
const MANAGED = [NOT_READY, UNREACHABLE]
  .flatMap((key) => ["NoSchedule", "NoExecute"].map((effect): V1Taint => ({ key, effect })))
  .concat({ key: UNSCHEDULABLE, effect: "NoSchedule" });

/** Plans at most one step, which replaces the managed taints with those of the node's state and cordon. */
function planTaints(node: V1Node, state: NodeState, nowMs: number): NodeStep[] {
  const { name = "", resourceVersion = "" } = node.metadata ?? {};
  const present = node.spec?.taints ?? [];
  const isCordoned = node.spec?.unschedulable === true;
  const key = state === "unreachable" ? UNREACHABLE : NOT_READY;
  const isWanted = (taint: V1Taint): boolean =>
    taint.key === UNSCHEDULABLE ? isCordoned : state !== "ready" && taint.key === key;
  const kept = present.filter((taint) => isWanted(taint) || !MANAGED.some((managed) => isSame(managed, taint)));
  const missing = MANAGED.filter((taint) => isWanted(taint) && !present.some((other) => isSame(taint, other)));
  const changed = [...missing, ...present.filter((taint) => !kept.includes(taint))];
  if (changed.length === 0) return [];
  const taints = [...kept, ...missing.map((taint) => ({ ...taint, timeAdded: new Date(nowMs) }))];
  const isCordonAlone = changed.every((taint) => taint.key === UNSCHEDULABLE);
  const because = isCordonAlone ? (isCordoned ? "cordoned" : "uncordoned") : state;
  return [{ kind: "set-taints", node: name, taints, resourceVersion, because }];
}

function isSame(one: V1Taint, other: V1Taint): boolean {
  return one.key === other.key && one.effect === other.effect;
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

/** Plans the eviction of a pod at the first taint that it does not tolerate, or no longer tolerates. */
function planEviction(pod: V1Pod, { node, taintedAtMs }: NodeFacts, nowMs: number): NodeStep[] {
  if (pod.metadata?.deletionTimestamp !== undefined || isOver(pod)) return [];
  let leaves: { readonly atMs: number; readonly taint: string } | undefined;
  for (const taint of node.spec?.taints ?? []) {
    if (taint.effect !== "NoExecute") continue;
    const key = buildTaintKey(taint);
    const atMs = (taintedAtMs.get(key) ?? nowMs) + toleratedMs(pod, taint);
    if (atMs < (leaves?.atMs ?? Infinity)) leaves = { atMs, taint: key };
  }
  if (leaves === undefined) return [];
  if (nowMs >= leaves.atMs) return [{ kind: "evict", pod, taint: leaves.taint, because: "taint" }];
  return [{ kind: "wait", untilMs: leaves.atMs, because: "toleration" }];
}

/** Returns how long a pod tolerates a taint: the shortest of its tolerations, 0 without any, Infinity without a limit. */
function toleratedMs(pod: V1Pod, taint: V1Taint): number {
  const tolerations = (pod.spec?.tolerations ?? []).filter((each) => isTolerated(each, taint));
  if (tolerations.length === 0) return 0;
  return Math.min(...tolerations.map((each) => Math.max(0, each.tolerationSeconds ?? Infinity) * 1000));
}

function isPodReady(pod: V1Pod): boolean {
  return pod.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

function isOver(pod: V1Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}
