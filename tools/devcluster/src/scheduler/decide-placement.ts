import type { V1Node, V1Pod, V1Taint } from "@kubernetes/client-node";
import { matchesNodeTerm, isTolerated, findUntolerated, type Amounts } from "@muster/resources";
import {
  listAntiAffinityTerms,
  type ClusterState,
  type NodePlace,
  sumRequests,
  findTopology,
} from "./cluster-state.ts";
import { hasLabels } from "./match-labels.ts";

/** The node of a pod, or why it waits. `kubectl describe pod` shows the message. */
export type Placement =
  | { readonly kind: "bind"; readonly node: string; readonly because: "fits" }
  | {
      readonly kind: "wait";
      readonly because: "no-nodes" | "no-fit" | "not-served";
      readonly message: string;
      /** Number of nodes by reason; a node that lacks several resources counts once for each. */
      readonly reasons: ReadonlyMap<string, number>;
    };

const NO_POD_AFFINITY =
  "this scheduler does not support required pod affinity: use a Kubernetes cluster of your own (--kubeconfig)";
const DEFAULT_SCHEDULER = "default-scheduler";
const DEFAULT_PODS = 110;

/** Returns whether this scheduler must place the pod: unbound, not ended, not in deletion, and not of another scheduler. */
export function isAwaitingPlacement(pod: V1Pod): boolean {
  const scheduler = pod.spec?.schedulerName ?? DEFAULT_SCHEDULER;
  return (
    (scheduler === DEFAULT_SCHEDULER || scheduler === "") &&
    (pod.spec?.nodeName ?? "") === "" &&
    pod.status?.phase !== "Succeeded" &&
    pod.status?.phase !== "Failed" &&
    pod.metadata?.deletionTimestamp === undefined &&
    (pod.spec?.schedulingGates ?? []).length === 0
  );
}

/**
 * Chooses a node for one pod: of the nodes that fit, the one with the fewest pods, then the first by name. The result does not depend on the order of earlier
 * updates.
 */
export function decidePlacement(pod: V1Pod, state: ClusterState): Placement {
  const nodes = state.nodes();
  if (nodes.length === 0) {
    return { kind: "wait", because: "no-nodes", message: "no nodes available to schedule pods", reasons: new Map() };
  }
  if (pod.spec?.affinity?.podAffinity?.requiredDuringSchedulingIgnoredDuringExecution !== undefined)
    return { kind: "wait", because: "not-served", message: NO_POD_AFFINITY, reasons: new Map() };
  const demands = computeDemands(pod, state);
  const reasons = new Map<string, number>();
  let best: NodePlace | undefined;
  const names = findNames(pod);
  // Most pods may run on few nodes, so the reasons against the others are counted only if none fits.
  for (const { place, node } of nodes) {
    if (names?.has(place.name) === false || (best !== undefined && !isBetter(place, best))) continue;
    if (findProblems(demands, place, node).length === 0) best = place;
  }
  if (best !== undefined) return { kind: "bind", node: best.name, because: "fits" };
  for (const { place, node } of nodes)
    for (const problem of findProblems(demands, place, node)) reasons.set(problem, (reasons.get(problem) ?? 0) + 1);
  return { kind: "wait", because: "no-fit", message: waitMessage(nodes.length, reasons), reasons };
}

/** Returns the nodes that a pod names; undefined if one of its terms names none. */
function findNames(pod: V1Pod): ReadonlySet<string> | undefined {
  const names = new Set<string>();
  const required = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  for (const { matchFields = [] } of required?.nodeSelectorTerms ?? [{}]) {
    const named = matchFields.find(({ key, operator }) => key === "metadata.name" && operator === "In");
    if (named === undefined) return undefined;
    for (const name of named.values ?? []) names.add(name);
  }
  return names;
}

function isBetter(a: NodePlace, b: NodePlace): boolean {
  return a.pods.size < b.pods.size || (a.pods.size === b.pods.size && a.name < b.name);
}

type Domains = { readonly topologyKey: string; readonly domains: ReadonlySet<string> };

/** The demands of a pod that are the same for every node. */
type Demands = {
  readonly pod: V1Pod;
  readonly requests: Amounts;
  readonly apart: readonly Domains[];
  readonly unwanted: readonly Domains[];
};

function computeDemands(pod: V1Pod, state: ClusterState): Demands {
  return {
    pod,
    requests: sumRequests(pod),
    apart: listAntiAffinityTerms(pod).map((term) => ({
      topologyKey: term.topologyKey,
      domains: state.domainsWith(term, pod),
    })),
    unwanted: state.domainsHeldAgainst(pod),
  };
}

/** Returns the reasons of the first kind that applies to one node, in the order and the words of kube-scheduler. */
function findProblems(demands: Demands, place: NodePlace, node: V1Node): readonly string[] {
  const { pod } = demands;
  const tolerations = pod.spec?.tolerations ?? [];
  if (node.spec?.unschedulable === true && !tolerations.some((each) => isTolerated(each, CORDON))) {
    return ["node(s) were unschedulable"];
  }
  // The node lifecycle taints nodes that are not ready only a moment later.
  const taints = isReady(node) ? (node.spec?.taints ?? []) : [...(node.spec?.taints ?? []), NOT_READY];
  const taint = findUntolerated(taints, tolerations);
  if (taint !== undefined) return [`node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`];
  if (!matchesNode(pod, node)) return ["node(s) didn't match Pod's node affinity/selector"];
  const lacking = insufficient(demands.requests, place);
  if (lacking.length > 0) return lacking;
  const isIn = ({ topologyKey, domains }: Domains): boolean => {
    const domain = findTopology(node, topologyKey);
    return domain !== undefined && domains.has(domain);
  };
  if (demands.apart.some(isIn)) return ["node(s) didn't match pod anti-affinity rules"];
  return demands.unwanted.some(isIn) ? ["node(s) didn't satisfy existing pods anti-affinity rules"] : [];
}

const CORDON: V1Taint = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };
const NOT_READY: V1Taint = { key: "node.kubernetes.io/not-ready", effect: "NoSchedule" };

function matchesNode(pod: V1Pod, node: V1Node): boolean {
  const name = node.metadata?.name ?? "";
  const labels = node.metadata?.labels ?? {};
  if (!hasLabels(pod.spec?.nodeSelector ?? {}, labels)) return false;
  const required = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  if (required === undefined) return true;
  return required.nodeSelectorTerms.some((term) => matchesNodeTerm(term, { name, labels }));
}

function insufficient(requests: Amounts, { allocatable, used, pods }: NodePlace): string[] {
  const problems: string[] = [];
  if (pods.size + 1 > (allocatable.get("pods") ?? DEFAULT_PODS)) problems.push("Too many pods");
  for (const [resource, wanted] of requests) {
    if (wanted === 0) continue;
    const free = (allocatable.get(resource) ?? 0) - (used.get(resource) ?? 0);
    if (wanted > free) problems.push(`Insufficient ${resource}`);
  }
  return problems;
}

function isReady(node: V1Node): boolean {
  return node.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

function waitMessage(count: number, reasons: ReadonlyMap<string, number>): string {
  const parts = [...reasons].map(([reason, nodes]) => `${nodes} ${reason}`).sort(compare);
  return `0/${count} nodes are available: ${parts.join(", ")}.`;
}

/** Compares by code unit, which does not depend on the locale. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
