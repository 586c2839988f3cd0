import type { Amounts } from "./amounts.ts";
import { printAmount } from "./quantity.ts";
import { canFit } from "./room.ts";

/** Operators of the requirements of a node affinity. */
export const NODE_SELECTOR_OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] as const;

/** A requirement of the node selector terms of an affinity, as in Kubernetes. */
export type NodeSelectorRequirement = {
  readonly key: string;
  /** One of `NODE_SELECTOR_OPERATORS`; any other value matches no node. */
  readonly operator: string;
  readonly values?: readonly string[];
};

/** A term whose requirements must all hold. A term without a requirement matches no node. The only field is `metadata.name`. */
export type NodeSelectorTerm = {
  readonly matchExpressions?: readonly NodeSelectorRequirement[];
  readonly matchFields?: readonly NodeSelectorRequirement[];
};

export type Toleration = {
  /** Undefined or empty: every taint, with the operator Exists. */
  readonly key?: string;
  /** Exists or Equal; absent or empty: Equal. */
  readonly operator?: string;
  readonly value?: string;
  /** Undefined or empty: every effect. */
  readonly effect?: string;
};

export type Taint = { readonly key: string; readonly value?: string; readonly effect: string };

/** The nodes that a pod accepts, as kube-scheduler reads them from the pod. */
export type NodeSelection = {
  /** Alternative terms; without one, every node whose taints are tolerated. */
  readonly terms: readonly NodeSelectorTerm[];
  readonly tolerations: readonly Toleration[];
  /** By resource, the amounts that a node must be able to allocate, beside room for one pod. Absent: any size. */
  readonly minimum?: Readonly<Record<string, number>>;
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
      // The API server refuses other operators; an unknown one never matches.
      return false;
  }
}

/** Compares two integers. Returns NaN, which is neither more nor less than 0, if one of the texts is no integer. */
function compareIntegers(one = "", other = ""): number {
  const isInteger = (text: string): boolean => /^[+-]?\d+$/.test(text);
  return isInteger(one) && isInteger(other) ? Number(one) - Number(other) : NaN;
}

/** Whether one toleration covers one taint. */
export function isTolerated(toleration: Toleration, taint: Taint): boolean {
  if ((toleration.effect ?? "") !== "" && toleration.effect !== taint.effect) return false;
  const operator = (toleration.operator ?? "") === "" ? "Equal" : toleration.operator;
  if ((toleration.key ?? "") === "") return operator === "Exists";
  if (toleration.key !== taint.key) return false;
  return operator === "Exists" || (operator === "Equal" && (toleration.value ?? "") === (taint.value ?? ""));
}

/** The first taint that keeps a pod with these tolerations from the node. */
export function findUntolerated(taints: readonly Taint[], tolerations: readonly Toleration[]): Taint | undefined {
  return taints
    .filter(({ effect }) => effect === "NoSchedule" || effect === "NoExecute")
    .find((taint) => !tolerations.some((toleration) => isTolerated(toleration, taint)));
}

/** Returns a selection of the nodes that also match the requirement; without a selection, of all nodes that match it. */
export function restrictSelection(
  selection: NodeSelection | undefined,
  requirement: NodeSelectorRequirement,
): NodeSelection {
  return restrictTerms(selection, { matchExpressions: [requirement] });
}

/** Returns the selection without the nodes of these names; without a selection, all nodes but these. */
export function excludeNodes(selection: NodeSelection | undefined, names: readonly string[]): NodeSelection {
  return restrictTerms(selection, { matchFields: [{ key: "metadata.name", operator: "NotIn", values: names }] });
}

/**
 * The need on other nodes than those of these names, which have rejected its pods. The ledger counts only what it granted: it would grant a part of the same
 * node again while a shared node rejects pods.
 */
export function avoidNodes<Need extends { readonly selection?: NodeSelection }>(
  need: Need,
  names: readonly string[],
): Need {
  return names.length === 0 ? need : { ...need, selection: excludeNodes(need.selection, names) };
}

function restrictTerms(selection: NodeSelection | undefined, added: NodeSelectorTerm): NodeSelection {
  const { terms = [], ...others } = selection ?? { tolerations: [] };
  if (terms.length === 0) return { terms: [added], ...others };
  const restricted = terms.map((term): NodeSelectorTerm => {
    const { matchExpressions = [], matchFields = [] } = term;
    // A term without a requirement matches no node, and must stay unmatched after the merge.
    if (matchExpressions.length + matchFields.length === 0) return term;
    return {
      ...term,
      ...(added.matchExpressions && { matchExpressions: [...matchExpressions, ...added.matchExpressions] }),
      ...(added.matchFields && { matchFields: [...matchFields, ...added.matchFields] }),
    };
  });
  return { terms: restricted, ...others };
}

/** The facts that decide whether a pod accepts a node. */
export type SelectableNode = {
  readonly name: string;
  readonly labels: Labels;
  readonly taints: readonly Taint[];
  /** The allocatable amounts, less the node's overhead. Absent: unknown. */
  readonly allocatable?: Amounts | undefined;
};

/** Whether labels, name, size and taints of the node suit a pod of the selection. Without one: a pod that selects no labels and tolerates no taint. */
export function acceptsNode(selection: NodeSelection | undefined, node: SelectableNode): boolean {
  const isMatch =
    selection === undefined || (matchesNode(selection, node) && canHoldMinimum(selection, node.allocatable));
  return isMatch && findUntolerated(node.taints, selection?.tolerations ?? []) === undefined;
}

/** Whether a node of this size holds the minimum of the selection. A node of unknown size holds no minimum. */
export function canHoldMinimum(selection: NodeSelection | undefined, allocatable: Amounts | undefined): boolean {
  const minimum = getMinimum(selection);
  return minimum === undefined || (allocatable !== undefined && canFit(minimum, allocatable));
}

const minima = new WeakMap<NonNullable<NodeSelection["minimum"]>, Amounts>();

/** The minimum of the selection as amounts. The selection must not change afterwards. */
export function getMinimum(selection: NodeSelection | undefined): Amounts | undefined {
  const minimum = selection?.minimum;
  if (minimum === undefined || Object.keys(minimum).length === 0) return undefined;
  const amounts = minima.get(minimum) ?? new Map(Object.entries(minimum));
  minima.set(minimum, amounts);
  return amounts;
}

/** Returns a selection of the nodes that also hold these requests; without a selection, of all nodes that hold them. */
export function withMinimum(
  selection: NodeSelection | undefined,
  minimum: Readonly<Record<string, number>>,
): NodeSelection | undefined {
  if (Object.keys(minimum).length === 0) return selection;
  return { terms: [], tolerations: [], ...selection, minimum };
}

const withoutMinima = new WeakMap<NodeSelection, NodeSelection>();

/** The nodes of the selection, whatever their size. Undefined: each node without taints. The same object for the same selection. */
export function withoutMinimum(selection: NodeSelection | undefined): NodeSelection | undefined {
  if (selection?.minimum === undefined) return selection;
  const { minimum: _minimum, ...others } = selection;
  if (others.terms.length + others.tolerations.length === 0) return undefined;
  const known = withoutMinima.get(selection) ?? others;
  withoutMinima.set(selection, known);
  return known;
}

const keys = new WeakMap<NodeSelection, string>();

/** Equal for selections with the same minimum, and the same terms and tolerations in the same order. The selection must not change afterwards. */
export function buildNodeSelectionKey(selection: NodeSelection): string {
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
  const minimum = positiveAmounts(selection.minimum).sort(([one], [other]) => (one < other ? -1 : 1));
  const text = JSON.stringify([terms, tolerations, ...(minimum.length === 0 ? [] : [minimum])]);
  keys.set(selection, text);
  return text;
}

function positiveAmounts(amounts: NodeSelection["minimum"] = {}): (readonly [string, number])[] {
  return Object.entries(amounts).filter(([, amount]) => amount > 0);
}

/** Omits empty fields, as messages do. */
export function compactNodeSelection({ terms, tolerations, minimum }: NodeSelection): NodeSelection {
  const amounts = positiveAmounts(minimum);
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
    ...(amounts.length > 0 && { minimum: Object.fromEntries(amounts) }),
  };
}

/** Indexes selections for messages: lists each distinct one once, and the position of each need's selection from 1; 0: it has none. */
export function indexSelections(needs: readonly { readonly selection?: NodeSelection | undefined }[]): {
  readonly selections: readonly NodeSelection[];
  readonly indexes: readonly number[];
} {
  const known = new Map<string, { readonly selection: NodeSelection; readonly index: number }>();
  const indexes = needs.map(({ selection }) => {
    if (selection === undefined) return 0;
    const key = buildNodeSelectionKey(selection);
    const { index } = known.get(key) ?? { index: known.size + 1 };
    known.set(key, { selection, index });
    return index;
  });
  return { selections: [...known.values()].map(({ selection }) => selection), indexes };
}

/** Maximum length of the description of a selection, which conditions and explanations contain. */
const MAX_DESCRIPTION_LENGTH = 200;

/** Describes a selection: `disk=ssd, zone in (a, b); holds cpu 4500m, memory 8Gi; tolerates gpu`. A longer text ends in an ellipsis. */
export function describeNodeSelection({ terms, tolerations, minimum = {} }: NodeSelection): string {
  const nodes = terms.map(describeTerm).join(" or ");
  const amounts = Object.entries(minimum).map(([resource, amount]) => `${resource} ${printAmount(resource, amount)}`);
  const taints = tolerations.map(describeToleration).join(", ");
  const held = amounts.length === 0 ? "" : `holds ${amounts.join(", ")}`;
  const text = [nodes, held, taints === "" ? "" : `tolerates ${taints}`].filter((part) => part !== "").join("; ");
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
