import type { V1Node, V1Pod, V1PodCondition } from "@kubernetes/client-node";
import { keepFacts } from "@muster/health";
import { checkDnsLabel } from "@muster/names";
import { annotations, labels, schedulingGates, taints } from "@muster/proto";
import type { WatchedNode } from "../domain/node-state.ts";
import type { WatchedPod } from "../domain/pod-state.ts";

/** What the watcher keeps of a pod; undefined without a valid owner label. */
export function watchedPod(pod: V1Pod): WatchedPod | undefined {
  const { metadata, spec, status } = pod;
  const own = metadata?.labels ?? {};
  const owner = { kind: own[labels.ownerKind] ?? "", id: own[labels.owner] ?? "" };
  const wrong = checkDnsLabel(labels.ownerKind, owner.kind) ?? checkDnsLabel(labels.owner, owner.id);
  if (wrong !== undefined) return undefined;
  const phase = status?.phase ?? "";
  return {
    owner,
    component: own[labels.component] ?? "",
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    resourceVersion: Number(metadata?.resourceVersion ?? 0),
    createdAtMs: timeMs(metadata?.creationTimestamp),
    podIp: status?.podIP ?? "",
    node: spec?.nodeName ?? "",
    deleting: metadata?.deletionTimestamp !== undefined,
    exclusive: own[labels.exclusive] === "true",
    finished: phase === "Succeeded" || phase === "Failed",
    mainContainer: metadata?.annotations?.[annotations.mainContainer],
    facts: keepFacts(withoutOwnGate(pod)),
  };
}

/** Muster removes its own gate after a moment, but Kubernetes reports it until a scheduler has seen the pod: such a pod counts as waiting for its node. */
function withoutOwnGate(pod: V1Pod): V1Pod {
  const { spec, status } = pod;
  const foreign = (spec?.schedulingGates ?? []).some(({ name }) => name !== schedulingGates.unconfirmed);
  if (foreign || status?.conditions?.some(isGated) !== true) return pod;
  return { ...pod, status: { ...status, conditions: status.conditions.filter((condition) => !isGated(condition)) } };
}

function isGated({ type, reason }: V1PodCondition): boolean {
  return type === "PodScheduled" && reason === "SchedulingGated";
}

export function watchedNode(node: V1Node): WatchedNode {
  const { metadata, spec, status } = node;
  const closed = (spec?.taints ?? []).some(({ effect }) => effect === "NoSchedule" || effect === "NoExecute");
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    resourceVersion: Number(metadata?.resourceVersion ?? 0),
    createdAtMs: timeMs(metadata?.creationTimestamp),
    labels: metadata?.labels ?? {},
    ready: (status?.conditions ?? []).some((condition) => condition.type === "Ready" && condition.status === "True"),
    schedulable: spec?.unschedulable !== true && !closed,
    cordoned: spec?.unschedulable === true,
    unopened: (spec?.taints ?? []).some(({ key }) => key === taints.startup),
  };
}

/** client-node says Date, the JSON of a watch says text; 0 when neither can be read. */
function timeMs(time: Date | string | undefined): number {
  const ms = time === undefined ? 0 : new Date(time).getTime();
  return Number.isNaN(ms) ? 0 : ms;
}
