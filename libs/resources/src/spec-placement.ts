import {
  compactNodeSelection,
  buildNodeSelectionKey,
  type NodeSelection,
  type NodeSelectorRequirement,
  type NodeSelectorTerm,
  type Toleration,
} from "./node-selection.ts";
import { isObject, toObjects, toText, type PlainObject } from "./written-fields.ts";

/** The raw fields of a pod spec that decide its node. */
export type WrittenPlacement = {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly affinity?: unknown;
  readonly tolerations?: unknown;
};

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";

/**
 * The nodes that a pod with this spec accepts: its node selector without the label of pools, its required node affinity, and its tolerations. Undefined: each
 * node of the pool without taints.
 */
export function readNodeSelection(spec: WrittenPlacement, poolLabel: string): NodeSelection | undefined {
  const selector = Object.entries(spec.nodeSelector ?? {})
    .filter(([key]) => key !== poolLabel)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([key, value]): NodeSelectorRequirement => ({ key, operator: "In", values: [value] }));
  const demanded = toObjects(at(spec.affinity, "nodeAffinity", REQUIRED, "nodeSelectorTerms")).map(readTerm);
  const own: readonly NodeSelectorTerm[] = selector.length === 0 ? [] : [{ matchExpressions: selector }];
  const both = demanded.map((term) => withRequirements(term, selector));
  const terms = demanded.length === 0 ? own : both;
  const tolerations = readTolerations(spec);
  return terms.length + tolerations.length === 0 ? undefined : compactNodeSelection({ terms, tolerations });
}

/** Omits `tolerationSeconds`, which concerns eviction and not scheduling. */
export function readTolerations({ tolerations }: Pick<WrittenPlacement, "tolerations">): readonly Toleration[] {
  const written = toObjects(tolerations).map(({ key, operator, value, effect }): Toleration => {
    return { key: toText(key), operator: toText(operator), value: toText(value), effect: toText(effect) };
  });
  return compactNodeSelection({ terms: [], tolerations: written }).tolerations;
}

/** The tolerations that all pods of a node share, by node. */
export function listCommonTolerations(
  placed: Iterable<{ readonly node: string; readonly tolerations: readonly Toleration[] }>,
): ReadonlyMap<string, readonly Toleration[]> {
  const byNode = new Map<string, readonly Toleration[]>();
  for (const { node, tolerations } of placed) {
    const keys = new Set(tolerations.map(tolerationKey));
    byNode.set(
      node,
      (byNode.get(node) ?? tolerations).filter((each) => keys.has(tolerationKey(each))),
    );
  }
  return byNode;
}

function tolerationKey(toleration: Toleration): string {
  return buildNodeSelectionKey({ terms: [], tolerations: [toleration] });
}

/** Values of the label that marks pods of Muster: whether the pod has its machine for itself, or a part of it. */
export const EXCLUSIVE = "true";
export const SHARED = "false";

const HOSTNAME = "kubernetes.io/hostname";

/**
 * Builds the affinity of a pod with a granted machine: the written affinity, limited to this node. Requires the node by name, because its hostname label may
 * differ. An exclusive pod excludes every pod with the label `exclusiveKey`, a shared one only exclusive pods. Kubernetes also applies the terms of running
 * pods to a new pod, which protects against a stale grant.
 */
export function buildGrantedAffinity(
  written: unknown,
  {
    node,
    exclusiveKey,
    isShared,
  }: { readonly node: string; readonly exclusiveKey: string; readonly isShared: boolean },
) {
  const affinity = isObject(written) ? written : {};
  const nodes = isObject(affinity["nodeAffinity"]) ? affinity["nodeAffinity"] : {};
  const podAffinity = isObject(affinity["podAntiAffinity"]) ? affinity["podAntiAffinity"] : {};
  const demanded = toObjects(at(nodes, REQUIRED, "nodeSelectorTerms"));
  // The scheduler needs only one matching term, so each of them names the machine.
  const terms = (demanded.length > 0 ? demanded : [{}]).map((term) => ({
    ...term,
    matchFields: [...toObjects(term["matchFields"]), { key: NODE_NAME, operator: "In", values: [node] }],
  }));
  const excluded = isShared
    ? { key: exclusiveKey, operator: "In", values: [EXCLUSIVE] }
    : { key: exclusiveKey, operator: "Exists" };
  const apart = {
    topologyKey: HOSTNAME,
    labelSelector: { matchExpressions: [excluded] },
    // Empty selects every namespace; without it the rule covers only pods of this one.
    namespaceSelector: {},
  };
  return {
    ...affinity,
    nodeAffinity: { ...nodes, [REQUIRED]: { nodeSelectorTerms: terms } },
    podAntiAffinity: { ...podAffinity, [REQUIRED]: [...toObjects(podAffinity[REQUIRED]), apart] },
  };
}

const NODE_NAME = "metadata.name";

/** The machine that `buildGrantedAffinity` requires; undefined: the affinity requires none. */
export function findGrantedNode(affinity: unknown): string | undefined {
  const [term] = toObjects(at(affinity, "nodeAffinity", REQUIRED, "nodeSelectorTerms"));
  const field = toObjects(term?.["matchFields"]).findLast(
    ({ key, operator }) => key === NODE_NAME && operator === "In",
  );
  const values = field?.["values"];
  const node: unknown = Array.isArray(values) ? values[0] : undefined;
  return typeof node === "string" ? node : undefined;
}

/** A term without a requirement accepts no node, whatever the node selector is. */
function withRequirements(term: NodeSelectorTerm, selector: readonly NodeSelectorRequirement[]): NodeSelectorTerm {
  const { matchExpressions = [], matchFields = [] } = term;
  if (selector.length === 0 || matchExpressions.length + matchFields.length === 0) return term;
  return { ...term, matchExpressions: [...selector, ...matchExpressions] };
}

function readTerm({ matchExpressions, matchFields }: PlainObject): NodeSelectorTerm {
  return {
    matchExpressions: toObjects(matchExpressions).map(readRequirement),
    matchFields: toObjects(matchFields).map(readRequirement),
  };
}

function readRequirement({ key, operator, values }: PlainObject): NodeSelectorRequirement {
  const texts = Array.isArray(values) ? values.filter((value) => typeof value === "string") : [];
  return { key: toText(key), operator: toText(operator), values: texts };
}

function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce((found, name) => (isObject(found) ? found[name] : undefined), value);
}
