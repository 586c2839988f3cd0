import type { KubeConfig, V1Node, V1OwnerReference, V1Pod, V1PodCondition } from "@kubernetes/client-node";
import { keepFacts } from "@muster/health";
import { checkDnsLabel, canBeOwner, isSessionElsewhere } from "@muster/names";
import { annotations, labels, schedulingGates, taints } from "@muster/proto";
import { parseAmounts, computePodRequests, type Amounts } from "@muster/resources";
import type { Config } from "../config.ts";
import type { WatchedNode } from "../domain/node-state.ts";
import { clampAmount, type ClusterPod, type OtherPod } from "../domain/node-use.ts";
import type { WatchedPod } from "../domain/pod-state.ts";
import { makeEqualAmounts } from "./equal-amounts.ts";

/** Which pods belong to Muster, and which others are overhead of their node. */
export type GroupRules = {
  /**
   * Namespace in which Muster creates its pods. Users of other namespaces can set the owner labels as well. In other namespaces the labels count only if they
   * name work of the pod's own namespace: Kubernetes deletes a pod whose owner reference names an object of another namespace.
   */
  readonly workNamespace: string;
  readonly systemNamespaces: readonly string[];
  /**
   * The namespace of Muster's services and of NATS, whose pods have the label PART_OF. Users of other namespaces can set that label as well. Undefined:
   * unknown, so these pods count as foreign.
   */
  readonly servicesNamespace?: string | undefined;
};

const PART_OF = { key: "app.kubernetes.io/part-of", value: "muster" };
/** Annotation of mirror pods, which represent the static pods of a kubelet. */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/** Builds the rules. Only the service account of a pod reliably names the services' namespace; a context of a kubeconfig file may name any namespace. */
export function buildGroupRules(
  { systemNamespaces, policy, kube: { kubeconfig } }: Pick<Config, "systemNamespaces" | "policy" | "kube">,
  kube: KubeConfig,
): GroupRules {
  const context = kubeconfig === undefined ? kube.getContextObject(kube.getCurrentContext()) : undefined;
  return { systemNamespaces, workNamespace: policy.namespace, servicesNamespace: context?.namespace };
}

/**
 * Returns the function that reduces a pod to the facts that the watcher keeps. A pod with owner labels in another namespace occupies its node if it is
 * exclusive. It counts for its owner if the owner can be a job, a session, or work of Kubernetes in that namespace. Otherwise its labels do not count, so that
 * no owner's grant hides its use. A pod in the namespace of the work does not count for a session of another namespace.
 */
export function makePodReader(rules: GroupRules): (pod: V1Pod) => ClusterPod {
  const equalAmounts = makeEqualAmounts();
  const requestsOf = (pod: V1Pod): Amounts => equalAmounts(requestsOfPod(pod));
  return (pod) => {
    const owned = toWatchedPod(pod, requestsOf);
    const counts =
      owned !== undefined &&
      (owned.exclusive ||
        (owned.namespace === rules.workNamespace && !isSessionElsewhere(owned.owner)) ||
        canBeOwner(owned.owner, { ...owned, controller: controllerOf(pod) }));
    return counts ? owned : otherPod(pod, rules, requestsOf);
  };
}

/** Returns the fields of a pod that the watcher keeps; undefined if the pod has no valid owner labels. */
export function toWatchedPod(pod: V1Pod, requestsOf = requestsOfPod): WatchedPod | undefined {
  const { metadata, spec, status } = pod;
  const own = metadata?.labels ?? {};
  const owner = { kind: own[labels.ownerKind] ?? "", id: own[labels.owner] ?? "" };
  const wrong = checkDnsLabel(labels.ownerKind, owner.kind) ?? checkDnsLabel(labels.owner, owner.id);
  if (wrong !== undefined) return undefined;
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
    finished: isFinished(pod),
    requests: requestsOf(pod),
    mainContainer: metadata?.annotations?.[annotations.mainContainer],
    facts: keepFacts(withoutOwnGate(pod)),
  };
}

function otherPod(pod: V1Pod, rules: GroupRules, requestsOf: (pod: V1Pod) => Amounts): OtherPod {
  const { metadata, spec } = pod;
  return {
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    node: spec?.nodeName ?? "",
    finished: isFinished(pod),
    group: isOverhead(pod, rules) ? "overhead" : "foreign",
    requests: requestsOf(pod),
  };
}

function controllerOf({ metadata }: V1Pod): V1OwnerReference | undefined {
  return metadata?.ownerReferences?.find((owner) => owner.controller === true);
}

function isOverhead(pod: V1Pod, { systemNamespaces, servicesNamespace }: GroupRules): boolean {
  const { metadata } = pod;
  const controller = controllerOf(pod);
  if (controller?.kind === "DaemonSet" && controller.apiVersion.startsWith("apps/")) return true;
  if (metadata?.annotations?.[MIRROR_ANNOTATION] !== undefined) return true;
  const { namespace = "" } = metadata ?? {};
  if (systemNamespaces.includes(namespace)) return true;
  return namespace === servicesNamespace && metadata?.labels?.[PART_OF.key] === PART_OF.value;
}

function isFinished({ status }: V1Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

function requestsOfPod({ spec }: V1Pod): Amounts {
  return spec === undefined ? new Map() : computePodRequests(spec);
}

/**
 * Drops Muster's own scheduling gate. Muster removes the gate soon, but Kubernetes reports it until a scheduler has processed the pod. The pod counts as
 * waiting for its node.
 */
function withoutOwnGate(pod: V1Pod): V1Pod {
  const { spec, status } = pod;
  const foreign = (spec?.schedulingGates ?? []).some(({ name }) => name !== schedulingGates.unconfirmed);
  if (foreign || status?.conditions?.some(isGated) !== true) return pod;
  return { ...pod, status: { ...status, conditions: status.conditions.filter((condition) => !isGated(condition)) } };
}

function isGated({ type, reason }: V1PodCondition): boolean {
  return type === "PodScheduled" && reason === "SchedulingGated";
}

export function toWatchedNode(node: V1Node): WatchedNode {
  const { metadata, spec, status } = node;
  const blockingTaints = (spec?.taints ?? []).filter(({ effect }) => effect === "NoSchedule" || effect === "NoExecute");
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    resourceVersion: Number(metadata?.resourceVersion ?? 0),
    createdAtMs: timeMs(metadata?.creationTimestamp),
    labels: metadata?.labels ?? {},
    ready: (status?.conditions ?? []).some((condition) => condition.type === "Ready" && condition.status === "True"),
    schedulable: spec?.unschedulable !== true && blockingTaints.length === 0,
    cordoned: spec?.unschedulable === true,
    unopened: (spec?.taints ?? []).some(({ key }) => key === taints.startup),
    taints: blockingTaints.map(({ key, value = "", effect }) => ({ key, value, effect })),
    allocatable: Object.fromEntries(
      [...parseAmounts(status?.allocatable ?? {})].map(([resource, amount]) => [resource, clampAmount(amount)]),
    ),
  };
}

/** Returns ms since 1970. client-node returns a Date, and the JSON of a watch contains a text; an unreadable time becomes 0. */
function timeMs(time: Date | string | undefined): number {
  const ms = time === undefined ? 0 : new Date(time).getTime();
  return Number.isNaN(ms) ? 0 : ms;
}
