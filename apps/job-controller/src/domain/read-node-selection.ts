import {
  compactNodeSelection,
  NODE_SELECTOR_OPERATORS,
  type NodeSelection,
  type NodeSelectorRequirement,
  type NodeSelectorTerm,
  type Toleration,
} from "@muster/resources";
import type { JobSpec, PodTemplate } from "./job.ts";
import { type Fields, isObject, objectsOf, type PlainObject } from "./read-fields.ts";

/** Notes a problem for each part of the node affinity and the tolerations that cannot be read. */
export function checkNodeSelection(spec: Fields): void {
  const affinity = spec.object("affinity")?.object("nodeAffinity");
  const required = affinity?.object("requiredDuringSchedulingIgnoredDuringExecution");
  for (const term of required?.objects("nodeSelectorTerms") ?? [])
    for (const each of [...term.objects("matchExpressions"), ...term.objects("matchFields")]) {
      each.text("key");
      each.oneOf("operator", NODE_SELECTOR_OPERATORS);
      each.texts("values");
    }
  for (const toleration of spec.objects("tolerations"))
    for (const name of ["key", "operator", "value", "effect"]) toleration.text(name);
}

/** Sets the nodes that the members of each type accept. */
export function withNodeSelections(spec: JobSpec, poolLabel: string): JobSpec {
  const replicas = spec.replicas.map((replica) => {
    const selection = nodeSelectionOf(replica.template, poolLabel);
    return selection === undefined ? replica : { ...replica, selection };
  });
  return { ...spec, replicas };
}

/**
 * The nodes that a pod of the template accepts: its node selector without the label of pools, its required node affinity, and its tolerations. Undefined: each
 * node of the pool without taints.
 */
function nodeSelectionOf({ spec }: PodTemplate, poolLabel: string): NodeSelection | undefined {
  const selector = Object.entries(spec.nodeSelector ?? {})
    .filter(([key]) => key !== poolLabel)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([key, value]): NodeSelectorRequirement => ({ key, operator: "In", values: [value] }));
  const demanded = objectsOf(at(spec["affinity"], "nodeAffinity", REQUIRED, "nodeSelectorTerms")).map(termOf);
  const own: readonly NodeSelectorTerm[] = selector.length === 0 ? [] : [{ matchExpressions: selector }];
  const both = demanded.map((term) => withRequirements(term, selector));
  const terms = demanded.length === 0 ? own : both;
  const tolerations = objectsOf(spec["tolerations"]).map(tolerationOf);
  return terms.length + tolerations.length === 0 ? undefined : compactNodeSelection({ terms, tolerations });
}

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";

/** A term without a requirement accepts no node, whatever the node selector is. */
function withRequirements(term: NodeSelectorTerm, selector: readonly NodeSelectorRequirement[]): NodeSelectorTerm {
  const { matchExpressions = [], matchFields = [] } = term;
  if (selector.length === 0 || matchExpressions.length + matchFields.length === 0) return term;
  return { ...term, matchExpressions: [...selector, ...matchExpressions] };
}

function termOf({ matchExpressions, matchFields }: PlainObject): NodeSelectorTerm {
  return {
    matchExpressions: objectsOf(matchExpressions).map(requirementOf),
    matchFields: objectsOf(matchFields).map(requirementOf),
  };
}

function requirementOf({ key, operator, values }: PlainObject): NodeSelectorRequirement {
  const texts = Array.isArray(values) ? values.filter((value) => typeof value === "string") : [];
  return { key: textOf(key), operator: textOf(operator), values: texts };
}

/** Without the time for which a pod stays on a node that becomes tainted: it is not about where a pod is placed. */
function tolerationOf({ key, operator, value, effect }: PlainObject): Toleration {
  return { key: textOf(key), operator: textOf(operator), value: textOf(value), effect: textOf(effect) };
}

function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce((found, name) => (isObject(found) ? found[name] : undefined), value);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
