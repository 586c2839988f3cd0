import type { NodeSelection, NodeSelectorRequirement, NodeSelectorTerm, Toleration } from "@muster/resources";
import type { JobSpec, PodTemplate } from "./job.ts";
import { type Fields, isObject } from "./read-fields.ts";

const OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] as const;

/** Notes a problem for each part of the node affinity and the tolerations that cannot be read. */
export function checkNodeSelection(spec: Fields): void {
  const affinity = spec.object("affinity")?.object("nodeAffinity");
  const required = affinity?.object("requiredDuringSchedulingIgnoredDuringExecution");
  for (const term of required?.objects("nodeSelectorTerms") ?? [])
    for (const each of [...term.objects("matchExpressions"), ...term.objects("matchFields")]) {
      each.text("key");
      each.oneOf("operator", OPERATORS);
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
  const demanded = listOf(at(spec["affinity"], "nodeAffinity", REQUIRED, "nodeSelectorTerms")).map(termOf);
  const own: readonly NodeSelectorTerm[] = selector.length === 0 ? [] : [{ matchExpressions: selector }];
  const both = demanded.map((term) => withRequirements(term, selector));
  const terms = demanded.length === 0 ? own : both;
  const tolerations = listOf(spec["tolerations"]).map(tolerationOf);
  return terms.length + tolerations.length === 0 ? undefined : { terms, tolerations };
}

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";

/** A term without a requirement accepts no node, whatever the node selector is. */
function withRequirements(term: NodeSelectorTerm, selector: readonly NodeSelectorRequirement[]): NodeSelectorTerm {
  const { matchExpressions = [], matchFields = [] } = term;
  if (selector.length === 0 || matchExpressions.length + matchFields.length === 0) return term;
  return { ...term, matchExpressions: [...selector, ...matchExpressions] };
}

function termOf(term: Item): NodeSelectorTerm {
  const [expressions, fields] = [term["matchExpressions"], term["matchFields"]].map((each) =>
    listOf(each).map(requirementOf),
  );
  return {
    ...(expressions !== undefined && expressions.length > 0 && { matchExpressions: expressions }),
    ...(fields !== undefined && fields.length > 0 && { matchFields: fields }),
  };
}

function requirementOf({ key, operator, values }: Item): NodeSelectorRequirement {
  const texts = Array.isArray(values) ? values.filter((value) => typeof value === "string") : [];
  return { key: textOf(key), operator: textOf(operator), ...(texts.length > 0 && { values: texts }) };
}

/** Without the time for which a pod stays on a node that becomes tainted: it is not about where a pod is placed. */
function tolerationOf(item: Item): Toleration {
  const fields = ["key", "operator", "value", "effect"].map((name) => [name, textOf(item[name])] as const);
  return Object.fromEntries(fields.filter(([, text]) => text !== ""));
}

type Item = Readonly<Record<string, unknown>>;

function listOf(value: unknown): readonly Item[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce((found, name) => (isObject(found) ? found[name] : undefined), value);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
