/** Operators of the requirements of a node affinity. */
export const NODE_SELECTOR_OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] as const;

/** As in Kubernetes, a requirement of the node selector terms of an affinity. */
export type NodeSelectorRequirement = {
  readonly key: string;
  /** One of `NODE_SELECTOR_OPERATORS`; nothing matches another one. */
  readonly operator: string;
  readonly values?: readonly string[];
};

/** All of its requirements must hold. A term without a requirement matches no node. The only field is `metadata.name`. */
export type NodeSelectorTerm = {
  readonly matchExpressions?: readonly NodeSelectorRequirement[];
  readonly matchFields?: readonly NodeSelectorRequirement[];
};

export type Toleration = {
  /** Absent or empty: every taint, with the operator Exists. */
  readonly key?: string;
  /** Exists or Equal; absent or empty: Equal. */
  readonly operator?: string;
  readonly value?: string;
  /** Absent or empty: every effect. */
  readonly effect?: string;
};

export type Taint = { readonly key: string; readonly value?: string; readonly effect: string };

/** Which nodes a pod accepts, as kube-scheduler reads it from the pod. */
export type NodeSelection = {
  /** One of these is enough; none: every node whose taints are tolerated. */
  readonly terms: readonly NodeSelectorTerm[];
  readonly tolerations: readonly Toleration[];
};

type Labels = Readonly<Record<string, string>>;

/** Whether the labels and the name of the node match the selection, whatever its taints are. */
export function matchesNode(
  { terms }: NodeSelection,
  node: { readonly name: string; readonly labels: Labels },
): boolean {
  return terms.length === 0 || terms.some((term) => matchesNodeTerm(term, node));
}

/** Whether the node matches one term of a required node affinity. */
export function matchesNodeTerm(
  { matchExpressions = [], matchFields = [] }: NodeSelectorTerm,
  { name, labels }: { readonly name: string; readonly labels: Labels },
): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  if (matchFields.some(({ key }) => key !== "metadata.name")) return false;
  return matchesAll(matchExpressions, labels) && matchesAll(matchFields, { "metadata.name": name });
}

/** Whether labels match all of the requirements. */
export function matchesAll(requirements: readonly NodeSelectorRequirement[], labels: Labels): boolean {
  return requirements.every((requirement) => {
    const { key } = requirement;
    return matches(requirement, Object.hasOwn(labels, key) ? labels[key] : undefined);
  });
}

function matches({ operator, values = [] }: NodeSelectorRequirement, value: string | undefined): boolean {
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
      return compareIntegers(value, values[0]) > 0;
    case "Lt":
      return compareIntegers(value, values[0]) < 0;
    default:
      // The API server refuses other operators; what is not known never matches.
      return false;
  }
}

/** NaN, which is neither more nor less than 0, where one of the texts is no integer. */
function compareIntegers(one = "", other = ""): number {
  const isInteger = (text: string): boolean => /^[+-]?\d+$/.test(text);
  return isInteger(one) && isInteger(other) ? Number(one) - Number(other) : NaN;
}

/** Whether one toleration covers one taint. */
export function tolerates(toleration: Toleration, taint: Taint): boolean {
  if ((toleration.effect ?? "") !== "" && toleration.effect !== taint.effect) return false;
  const operator = (toleration.operator ?? "") === "" ? "Equal" : toleration.operator;
  if ((toleration.key ?? "") === "") return operator === "Exists";
  if (toleration.key !== taint.key) return false;
  return operator === "Exists" || (operator === "Equal" && (toleration.value ?? "") === (taint.value ?? ""));
}

/** The first taint that keeps a pod with these tolerations from the node. */
export function untolerated(taints: readonly Taint[], tolerations: readonly Toleration[]): Taint | undefined {
  return taints
    .filter(({ effect }) => effect === "NoSchedule" || effect === "NoExecute")
    .find((taint) => !tolerations.some((toleration) => tolerates(toleration, taint)));
}

/** The nodes of the selection that also match the requirement; of all nodes without a selection. */
export function restrictSelection(
  selection: NodeSelection | undefined,
  requirement: NodeSelectorRequirement,
): NodeSelection {
  const { terms = [], tolerations = [] } = selection ?? {};
  if (terms.length === 0) return { terms: [{ matchExpressions: [requirement] }], tolerations };
  const restricted = terms.map((term): NodeSelectorTerm => {
    const { matchExpressions = [], matchFields = [] } = term;
    // A term without a requirement matches no node, and must not become one that does.
    if (matchExpressions.length + matchFields.length === 0) return term;
    return { ...term, matchExpressions: [...matchExpressions, requirement] };
  });
  return { terms: restricted, tolerations };
}

/** Whether labels, name and taints of the node suit a pod of the selection. Without one: a pod that selects no labels and tolerates no taint. */
export function acceptsNode(
  selection: NodeSelection | undefined,
  node: { readonly name: string; readonly labels: Labels; readonly taints: readonly Taint[] },
): boolean {
  const isMatch = selection === undefined || matchesNode(selection, node);
  return isMatch && untolerated(node.taints, selection?.tolerations ?? []) === undefined;
}

const keys = new WeakMap<NodeSelection, string>();

/** Equal for selections with the same terms and tolerations in the same order. The selection must not change afterwards. */
export function nodeSelectionKey(selection: NodeSelection): string {
  const known = keys.get(selection);
  if (known !== undefined) return known;
  const requirement = ({ key, operator, values = [] }: NodeSelectorRequirement): unknown => [key, operator, values];
  const terms = selection.terms.map(({ matchExpressions = [], matchFields = [] }) => [
    matchExpressions.map(requirement),
    matchFields.map(requirement),
  ]);
  const tolerations = selection.tolerations.map(({ key = "", operator = "", value = "", effect = "" }) => {
    return [key, operator, value, effect];
  });
  const text = JSON.stringify([terms, tolerations]);
  keys.set(selection, text);
  return text;
}

/** The same selection without empty fields, as a message has them. */
export function compactNodeSelection({ terms, tolerations }: NodeSelection): NodeSelection {
  const requirement = ({ key, operator, values = [] }: NodeSelectorRequirement): NodeSelectorRequirement => {
    return { key, operator, ...(values.length > 0 && { values }) };
  };
  return {
    terms: terms.map(({ matchExpressions = [], matchFields = [] }) => ({
      ...(matchExpressions.length > 0 && { matchExpressions: matchExpressions.map(requirement) }),
      ...(matchFields.length > 0 && { matchFields: matchFields.map(requirement) }),
    })),
    tolerations: tolerations.map((toleration): Toleration => {
      const { key, operator, value, effect } = toleration;
      return Object.fromEntries(Object.entries({ key, operator, value, effect }).filter(([, text]) => text));
    }),
  };
}

/** Each selection of a list of needs once, and for each need its place among them, from 1; 0: it has none. Messages carry selections in this form. */
export function indexSelections(needs: readonly { readonly selection?: NodeSelection | undefined }[]): {
  readonly selections: readonly NodeSelection[];
  readonly indexes: readonly number[];
} {
  const known = new Map<string, { readonly selection: NodeSelection; readonly index: number }>();
  const indexes = needs.map(({ selection }) => {
    if (selection === undefined) return 0;
    const key = nodeSelectionKey(selection);
    const { index } = known.get(key) ?? { index: known.size + 1 };
    known.set(key, { selection, index });
    return index;
  });
  return { selections: [...known.values()].map(({ selection }) => selection), indexes };
}

/** Of the text that describes a selection: it is in conditions and explanations. */
const MAX_DESCRIPTION_LENGTH = 200;

/** For people: `disk=ssd, zone in (a, b); tolerates gpu`. A longer text ends in an ellipsis. */
export function describeNodeSelection({ terms, tolerations }: NodeSelection): string {
  const nodes = terms.map(describeTerm).join(" or ");
  const taints = tolerations.map(describeToleration).join(", ");
  const text = [...(nodes === "" ? [] : [nodes]), ...(taints === "" ? [] : [`tolerates ${taints}`])].join("; ");
  return text.length <= MAX_DESCRIPTION_LENGTH ? text : `${text.slice(0, MAX_DESCRIPTION_LENGTH - 1)}…`;
}

function describeTerm({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): string {
  return [...matchExpressions, ...matchFields].map(describeRequirement).join(", ");
}

function describeRequirement({ key, operator, values = [] }: NodeSelectorRequirement): string {
  if (operator === "Exists") return key;
  if (operator === "DoesNotExist") return `no ${key}`;
  if (operator === "Gt" || operator === "Lt") return `${key} ${operator === "Gt" ? ">" : "<"} ${values[0] ?? ""}`;
  if (operator === "In" && values.length === 1) return `${key}=${values[0] ?? ""}`;
  return `${key} ${operator === "In" ? "in" : "not in"} (${values.join(", ")})`;
}

function describeToleration({ key = "", value = "" }: Toleration): string {
  if (key === "") return "every taint";
  return value === "" ? key : `${key}=${value}`;
}
