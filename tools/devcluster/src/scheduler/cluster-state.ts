import type { V1Node, V1Pod, V1PodAffinityTerm } from "@kubernetes/client-node";
import { parseAmounts, computePodRequests, type Amounts } from "@muster/resources";
import { type Labels, matchesSelector } from "./match-labels.ts";

/** A node and the counted amounts of its pods. */
export type NodePlace = {
  readonly name: string;
  readonly node: V1Node | undefined;
  readonly allocatable: Amounts;
  readonly used: Map<string, number>;
  readonly pods: Set<PlacedPod>;
};

export type PlacedPod = {
  readonly pod: V1Pod;
  readonly uid: string;
  readonly namespace: string;
  readonly labels: Labels;
  readonly nodeName: string;
  readonly requests: Amounts;
};

/** A required anti-affinity term, and the number of its pods on each node. Every pod of a job has such a term. */
type HeldTerm = { readonly term: V1PodAffinityTerm; readonly namespace: string; readonly nodes: Map<string, number> };

const HOSTNAME = "kubernetes.io/hostname";

/**
 * The placed pods, indexed for placements: by the free amounts of each node, by label, and by anti-affinity term. The cost of an update depends on the change,
 * not on the size of the cluster.
 */
export class ClusterState {
  readonly #places = new Map<string, NodePlace>();
  readonly #placed = new Map<string, PlacedPod>();
  readonly #byLabel = new Map<string, Set<PlacedPod>>();
  readonly #held = new Map<string, HeldTerm>();
  readonly #namespaceLabels = new Map<string, Labels>();

  setNode(node: V1Node): void {
    const name = node.metadata?.name ?? "";
    const allocatable = parseAmounts(node.status?.allocatable ?? {});
    this.#places.set(name, { ...this.#place(name), node, allocatable });
  }

  removeNode(name: string): void {
    const place = this.#place(name);
    if (place.pods.size === 0) this.#places.delete(name);
    else this.#places.set(name, { ...place, node: undefined, allocatable: new Map() });
  }

  setNamespace(name: string, labels: Labels | undefined): void {
    if (labels === undefined) this.#namespaceLabels.delete(name);
    else this.#namespaceLabels.set(name, labels);
  }

  /** Sets the state of a pod: counted on its node, or not at all if it is unbound or has ended. */
  setPod(pod: V1Pod): void {
    const uid = pod.metadata?.uid ?? "";
    const isEnded = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
    const known = this.#placed.get(uid)?.pod;
    // Most changes affect only the status, and objects of an API server in this process share unchanged parts.
    const isCounted = known?.spec === pod.spec && known?.metadata?.labels === pod.metadata?.labels;
    if (known !== undefined && isCounted && !isEnded) return;
    this.removePod(uid);
    const nodeName = pod.spec?.nodeName ?? "";
    if (nodeName === "" || isEnded) return;
    const placed: PlacedPod = {
      pod,
      uid,
      namespace: pod.metadata?.namespace ?? "",
      labels: pod.metadata?.labels ?? {},
      nodeName,
      requests: sumRequests(pod),
    };
    const place = this.#place(nodeName);
    this.#places.set(nodeName, place);
    place.pods.add(placed);
    for (const [resource, each] of placed.requests) place.used.set(resource, (place.used.get(resource) ?? 0) + each);
    this.#placed.set(placed.uid, placed);
    for (const key of labelKeys(placed.labels)) put(this.#byLabel, key, placed);
    for (const term of listAntiAffinityTerms(pod)) this.#hold(term, placed, 1);
  }

  removePod(uid: string): void {
    const placed = this.#placed.get(uid);
    if (placed === undefined) return;
    this.#placed.delete(uid);
    const place = this.#place(placed.nodeName);
    place.pods.delete(placed);
    for (const [resource, each] of placed.requests) place.used.set(resource, (place.used.get(resource) ?? 0) - each);
    for (const key of labelKeys(placed.labels)) drop(this.#byLabel, key, placed);
    for (const term of listAntiAffinityTerms(placed.pod)) this.#hold(term, placed, -1);
    if (place.node === undefined && place.pods.size === 0) this.#places.delete(placed.nodeName);
  }

  /** Returns existing nodes, without nodes that only pods name. */
  nodes(): { readonly place: NodePlace; readonly node: V1Node }[] {
    const found: { place: NodePlace; node: V1Node }[] = [];
    for (const place of this.#places.values()) if (place.node !== undefined) found.push({ place, node: place.node });
    return found;
  }

  nodeOf(uid: string): string | undefined {
    return this.#placed.get(uid)?.nodeName;
  }

  /** Returns the domains (values of the topology key) with other pods that a term of this pod selects. */
  domainsWith(term: V1PodAffinityTerm, owner: V1Pod): ReadonlySet<string> {
    const namespace = owner.metadata?.namespace ?? "";
    const domains = new Set<string>();
    for (const placed of this.#candidates(term)) {
      if (placed.uid === owner.metadata?.uid || !this.#means(term, namespace, placed)) continue;
      const domain = this.#domainOf(placed.nodeName, term.topologyKey);
      if (domain !== undefined) domains.add(domain);
    }
    return domains;
  }

  /** Returns the domains that placed pods exclude for this one: topology key and value. */
  domainsHeldAgainst(pod: V1Pod): { readonly topologyKey: string; readonly domains: ReadonlySet<string> }[] {
    const newcomer = { namespace: pod.metadata?.namespace ?? "", labels: pod.metadata?.labels ?? {} };
    return [...this.#held.values()]
      .filter(({ term, namespace }) => this.#means(term, namespace, newcomer))
      .map(({ term: { topologyKey }, nodes }) => {
        const domains = new Set<string>();
        for (const name of nodes.keys()) {
          const domain = this.#domainOf(name, topologyKey);
          if (domain !== undefined) domains.add(domain);
        }
        return { topologyKey, domains };
      });
  }

  /** Returns whether a term of a pod in `ownNamespace` selects the other pod. */
  #means(
    term: V1PodAffinityTerm,
    ownNamespace: string,
    other: { readonly namespace: string; readonly labels: Labels },
  ): boolean {
    const named = term.namespaces ?? [];
    const isOwnAlone = named.length === 0 && term.namespaceSelector === undefined;
    const inScope = isOwnAlone
      ? other.namespace === ownNamespace
      : named.includes(other.namespace) ||
        matchesSelector(term.namespaceSelector, this.#namespaceLabels.get(other.namespace) ?? {});
    return inScope && matchesSelector(term.labelSelector, other.labels);
  }

  /** Returns pods that may match the selector: those of its rarest label, or all. */
  #candidates({ labelSelector }: V1PodAffinityTerm): Iterable<PlacedPod> {
    const sets = labelKeys(labelSelector?.matchLabels ?? {}).map(
      (key) => this.#byLabel.get(key) ?? new Set<PlacedPod>(),
    );
    sets.sort((a, b) => a.size - b.size);
    return sets[0] ?? this.#placed.values();
  }

  #domainOf(nodeName: string, topologyKey: string): string | undefined {
    const node = this.#places.get(nodeName)?.node;
    return node === undefined ? undefined : findTopology(node, topologyKey);
  }

  #hold(term: V1PodAffinityTerm, { namespace, nodeName }: PlacedPod, step: 1 | -1): void {
    const key = JSON.stringify([namespace, term]);
    const held = this.#held.get(key) ?? { term, namespace, nodes: new Map<string, number>() };
    const count = (held.nodes.get(nodeName) ?? 0) + step;
    if (count > 0) held.nodes.set(nodeName, count);
    else held.nodes.delete(nodeName);
    if (held.nodes.size > 0) this.#held.set(key, held);
    else this.#held.delete(key);
  }

  #place(name: string): NodePlace {
    return (
      this.#places.get(name) ?? { name, node: undefined, allocatable: new Map(), used: new Map(), pods: new Set() }
    );
  }
}

/** Returns the value of a topology key; without a hostname label, the name of the node is its host. */
export function findTopology(node: V1Node, key: string): string | undefined {
  return node.metadata?.labels?.[key] ?? (key === HOSTNAME ? node.metadata?.name : undefined);
}

/** Returns the requests of the pod on its node. */
export function sumRequests({ spec }: V1Pod): Amounts {
  return computePodRequests(spec ?? { containers: [] });
}

export function listAntiAffinityTerms(pod: V1Pod): readonly V1PodAffinityTerm[] {
  return pod.spec?.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
}

function labelKeys(labels: Labels): string[] {
  return Object.entries(labels).map(([key, value]) => `${key}=${value}`);
}

function put<Value>(index: Map<string, Set<Value>>, key: string, value: Value): void {
  const set = index.get(key) ?? new Set<Value>();
  index.set(key, set.add(value));
}

function drop<Value>(index: Map<string, Set<Value>>, key: string, value: Value): void {
  const set = index.get(key);
  set?.delete(value);
  if (set?.size === 0) index.delete(key);
}
