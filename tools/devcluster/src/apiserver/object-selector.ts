import { type LabelSelector, matchesLabels, type Requirement } from "@muster/names";
import { type JsonValue, type JsonObject, getList, getObject, getText, getTexts } from "./json.ts";

/** Returns whether labels match the selector in an object (`matchLabels`, `matchExpressions`). */
export function matchesSelector(selector: JsonValue, labels: JsonObject): boolean {
  return matchesLabels(readSelector(selector), labels);
}

function readSelector(selector: JsonValue): LabelSelector {
  const labels = getObject(selector, "matchLabels");
  return [
    ...Object.keys(labels).map((key): Requirement => ({ key, operator: "in", values: [getText(labels, key)] })),
    ...getList(selector, "matchExpressions").map(readRequirement),
  ];
}

function readRequirement(expression: JsonValue): Requirement {
  const key = getText(expression, "key");
  const values = getTexts(expression, "values");
  switch (getText(expression, "operator")) {
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
