import type { V1LabelSelector, V1NodeSelectorRequirement, V1NodeSelectorTerm } from "@kubernetes/client-node";

export type Labels = Readonly<Record<string, string>>;

type Requirement = Pick<V1NodeSelectorRequirement, "key" | "operator" | "values">;

/** Kubernetes' label selector: an absent one matches nothing, an empty one matches everything. */
export function matchesSelector(selector: V1LabelSelector | undefined, labels: Labels): boolean {
  if (selector === undefined) return false;
  return hasLabels(selector.matchLabels ?? {}, labels) && matchesAll(selector.matchExpressions ?? [], labels);
}

export function hasLabels(wanted: Labels, labels: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}

/** One term of a required node affinity; a term without any requirement matches no node. */
export function matchesNodeTerm(term: V1NodeSelectorTerm, node: { name: string; labels: Labels }): boolean {
  const expressions = term.matchExpressions ?? [];
  const fields = term.matchFields ?? [];
  if (expressions.length + fields.length === 0) return false;
  return matchesAll(expressions, node.labels) && matchesAll(fields, { "metadata.name": node.name });
}

function matchesAll(requirements: readonly Requirement[], labels: Labels): boolean {
  return requirements.every((requirement) => matches(requirement, labels[requirement.key]));
}

function matches({ operator, values = [] }: Requirement, value: string | undefined): boolean {
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    case "Gt":
      return value !== undefined && Number(value) > Number(values[0]);
    case "Lt":
      return value !== undefined && Number(value) < Number(values[0]);
    default:
      // The API server refuses other operators; what is not known never matches.
      return false;
  }
}
