import type { V1Node, V1Pod, V1PodAffinityTerm, V1Taint, V1Toleration } from "@kubernetes/client-node";
import { hasLabels, type Labels, matchesNodeTerm, matchesSelector } from "./match-labels.ts";
import { milliQuantity } from "./quantity.ts";

/** Where a pod goes, or why it waits. `message` is what `kubectl describe pod` shows. */
export type Placement =
  | { readonly do: "bind"; readonly node: string; readonly because: "fits" }
  | {
      readonly do: "wait";
      readonly because: "no-nodes" | "no-fit";
      readonly message: string;
      /** Reason to number of nodes with it; a node that lacks several resources counts once for each. */
      readonly reasons: ReadonlyMap<string, number>;
    };

const DEFAULT_SCHEDULER = "default-scheduler";
const HOSTNAME = "kubernetes.io/hostname";

/** True for a pod that this scheduler has to place: not bound, not ended, not going away, and not given to another scheduler. */
export function awaitsPlacement(pod: V1Pod): boolean {
  const scheduler = pod.spec?.schedulerName ?? DEFAULT_SCHEDULER;
  return (
    (scheduler === DEFAULT_SCHEDULER || scheduler === "") &&
    !isBound(pod) &&
    !isTerminal(pod) &&
    pod.metadata?.deletionTimestamp === undefined &&
    (pod.spec?.schedulingGates ?? []).length === 0
  );
}

/**
 * Chooses a node for one pod. `pods` are all pods of the cluster, those that were just bound included. Among the nodes that fit the one with the fewest pods wins, then
 * the first by name: the order of the arguments has no influence.
 */
export function decidePlacement(pod: V1Pod, nodes: readonly V1Node[], pods: readonly V1Pod[]): Placement {
  if (nodes.length === 0) {
    return { do: "wait", because: "no-nodes", message: "no nodes available to schedule pods", reasons: new Map() };
  }
  const others = pods.filter((other) => other.metadata?.uid !== pod.metadata?.uid && isBound(other));
  const nodesByName = new Map(nodes.map((node) => [nodeName(node), node]));
  const placed = others
    .filter((other) => !isTerminal(other))
    .flatMap((other) => {
      const node = nodesByName.get(other.spec?.nodeName ?? "");
      return node === undefined ? [] : [{ pod: other, node }];
    });

  const reasons = new Map<string, number>();
  const fitting: { name: string; podCount: number }[] = [];
  for (const [name, node] of nodesByName) {
    const here = placed.filter((each) => each.node === node).map((each) => each.pod);
    const problems = problemsOf(pod, node, here, placed);
    for (const problem of problems) reasons.set(problem, (reasons.get(problem) ?? 0) + 1);
    if (problems.length === 0) fitting.push({ name, podCount: here.length });
  }
  fitting.sort((a, b) => a.podCount - b.podCount || compare(a.name, b.name));
  const best = fitting[0];
  if (best !== undefined) return { do: "bind", node: best.name, because: "fits" };
  return { do: "wait", because: "no-fit", message: waitMessage(nodesByName.size, reasons), reasons };
}

type PlacedPod = { readonly pod: V1Pod; readonly node: V1Node };

/** Reasons against one node, the first kind that applies, in the order and the words of kube-scheduler. */
function problemsOf(pod: V1Pod, node: V1Node, here: readonly V1Pod[], placed: readonly PlacedPod[]): string[] {
  const tolerations = pod.spec?.tolerations ?? [];
  if (node.spec?.unschedulable === true && !tolerations.some((each) => tolerates(each, CORDON))) {
    return ["node(s) were unschedulable"];
  }
  const taint = untolerated(node.spec?.taints ?? [], tolerations);
  if (taint !== undefined) return [`node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`];
  if (!isReady(node)) return ["node(s) were not ready"];
  if (!matchesNode(pod, node)) return ["node(s) didn't match Pod's node affinity/selector"];
  const lacking = insufficient(pod, node, here);
  if (lacking.length > 0) return lacking;
  if ((pod.spec?.affinity?.podAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []).length > 0) {
    return ["node(s) cannot be judged: this scheduler does not know required pod affinity"];
  }
  if (antiAffinityTerms(pod).some((term) => placed.some((other) => collides(term, pod, node, other)))) {
    return ["node(s) didn't match pod anti-affinity rules"];
  }
  const incoming = { pod, node };
  const unwanted = placed.some((other) =>
    antiAffinityTerms(other.pod).some((term) => collides(term, other.pod, other.node, incoming)),
  );
  return unwanted ? ["node(s) didn't satisfy existing pods anti-affinity rules"] : [];
}

const CORDON: V1Taint = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };

function untolerated(taints: readonly V1Taint[], tolerations: readonly V1Toleration[]): V1Taint | undefined {
  return taints
    .filter((taint) => taint.effect === "NoSchedule" || taint.effect === "NoExecute")
    .find((taint) => !tolerations.some((toleration) => tolerates(toleration, taint)));
}

function tolerates(toleration: V1Toleration, taint: V1Taint): boolean {
  if ((toleration.effect ?? "") !== "" && toleration.effect !== taint.effect) return false;
  const operator = toleration.operator ?? "Equal";
  if ((toleration.key ?? "") === "") return operator === "Exists";
  if (toleration.key !== taint.key) return false;
  return operator === "Exists" || (toleration.value ?? "") === (taint.value ?? "");
}

function matchesNode(pod: V1Pod, node: V1Node): boolean {
  const labels = node.metadata?.labels ?? {};
  if (!hasLabels(pod.spec?.nodeSelector ?? {}, labels)) return false;
  const terms =
    pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  return terms.length === 0 || terms.some((term) => matchesNodeTerm(term, { name: nodeName(node), labels }));
}

function insufficient(pod: V1Pod, node: V1Node, here: readonly V1Pod[]): string[] {
  const allocatable = node.status?.allocatable ?? {};
  const problems: string[] = [];
  const podLimit = milliQuantity(allocatable["pods"] ?? "110") ?? 0;
  if ((here.length + 1) * 1000 > podLimit) problems.push("Too many pods");
  for (const [resource, wanted] of podRequests(pod)) {
    if (wanted === 0) continue;
    const used = here.reduce((sum, other) => sum + (podRequests(other).get(resource) ?? 0), 0);
    const total = milliQuantity(allocatable[resource] ?? "0") ?? 0;
    if (used + wanted > total) problems.push(`Insufficient ${resource}`);
  }
  return problems;
}

/** Thousandths per resource: the sum of the containers, or the largest init container where that is more, plus the pod's overhead. */
function podRequests(pod: V1Pod): Map<string, number> {
  const total = new Map<string, number>();
  for (const container of pod.spec?.containers ?? []) {
    for (const [resource, milli] of requestsOf(container)) total.set(resource, (total.get(resource) ?? 0) + milli);
  }
  for (const container of pod.spec?.initContainers ?? []) {
    for (const [resource, milli] of requestsOf(container)) {
      total.set(resource, Math.max(total.get(resource) ?? 0, milli));
    }
  }
  for (const [resource, text] of Object.entries(pod.spec?.overhead ?? {})) {
    total.set(resource, (total.get(resource) ?? 0) + (milliQuantity(text) ?? 0));
  }
  return total;
}

/** A limit without a request is a request, as the API server's defaults say. */
function requestsOf(container: { resources?: { requests?: Labels; limits?: Labels } }): [string, number][] {
  const requests = { ...container.resources?.limits, ...container.resources?.requests };
  return Object.entries(requests).map(([resource, text]) => [resource, milliQuantity(text) ?? 0]);
}

function antiAffinityTerms(pod: V1Pod): readonly V1PodAffinityTerm[] {
  return pod.spec?.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
}

/** Whether a term of `owner`, were it on `node`, forbids `other` where it is. */
function collides(term: V1PodAffinityTerm, owner: V1Pod, node: V1Node, other: PlacedPod): boolean {
  const here = topologyOf(node, term.topologyKey);
  if (here === undefined || here !== topologyOf(other.node, term.topologyKey)) return false;
  const namespaces = term.namespaces ?? [];
  const namespace = other.pod.metadata?.namespace ?? "";
  const inScope =
    namespaces.length === 0 && term.namespaceSelector === undefined
      ? namespace === owner.metadata?.namespace
      : namespaces.includes(namespace) || term.namespaceSelector !== undefined;
  return inScope && matchesSelector(term.labelSelector, other.pod.metadata?.labels ?? {});
}

function topologyOf(node: V1Node, key: string): string | undefined {
  return node.metadata?.labels?.[key] ?? (key === HOSTNAME ? node.metadata?.name : undefined);
}

function isReady(node: V1Node): boolean {
  return node.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

function isBound(pod: V1Pod): boolean {
  return (pod.spec?.nodeName ?? "") !== "";
}

function isTerminal(pod: V1Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

function nodeName(node: V1Node): string {
  return node.metadata?.name ?? "";
}

function waitMessage(count: number, reasons: ReadonlyMap<string, number>): string {
  const parts = [...reasons].map(([reason, nodes]) => `${nodes} ${reason}`).sort(compare);
  return `0/${count} nodes are available: ${parts.join(", ")}.`;
}

/** By code unit and not by locale: the same everywhere. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
