import { type LabelSelector, matchesLabels, type Requirement } from "@muster/names";
import { type Json, type JsonObject, listAt, objectAt, textAt, textsAt } from "./json.ts";

/** Whether labels are as the selector in an object (`matchLabels`, `matchExpressions`) wants them. */
export function matchesSelector(selector: Json, labels: JsonObject): boolean {
  return matchesLabels(requirementsOf(selector), labels);
}

/** The selector as queries have it: `app=a,tier in (x,y)`; "" selects everything. */
export function printSelector(selector: Json): string {
  return requirementsOf(selector)
    .toSorted((one, other) => (one.key < other.key ? -1 : one.key > other.key ? 1 : 0))
    .map(printRequirement)
    .join();
}

function requirementsOf(selector: Json): LabelSelector {
  const labels = objectAt(selector, "matchLabels");
  return [
    ...Object.keys(labels).map((key): Requirement => ({ key, operator: "in", values: [textAt(labels, key)] })),
    ...listAt(selector, "matchExpressions").map(requirementOf),
  ];
}

function requirementOf(expression: Json): Requirement {
  const key = textAt(expression, "key");
  const values = textsAt(expression, "values");
  switch (textAt(expression, "operator")) {
    case "NotIn":
      return { key, operator: "notin", values };
    case "Exists":
      return { key, operator: "exists" };
    case "DoesNotExist":
      return { key, operator: "absent" };
    default:
      return { key, operator: "in", values };
  }
}

function printRequirement(requirement: Requirement): string {
  switch (requirement.operator) {
    case "exists":
      return requirement.key;
    case "absent":
      return `!${requirement.key}`;
    case "notin":
      return `${requirement.key} notin (${requirement.values.toSorted().join()})`;
    case "in":
      return requirement.values.length === 1
        ? `${requirement.key}=${requirement.values.join()}`
        : `${requirement.key} in (${requirement.values.toSorted().join()})`;
    case "gt":
    case "lt":
      return `${requirement.key}${requirement.operator === "gt" ? ">" : "<"}${requirement.bound}`;
  }
}
