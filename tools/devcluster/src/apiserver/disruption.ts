import { type JsonValue, type JsonObject, listAt, numberAt, objectAt, textAt } from "./json.ts";
import { isDeleting, nameOf } from "./metadata.ts";
import { matchesSelector } from "./object-selector.ts";
import { labelsOf } from "./selectors.ts";

/** Builds the status of a budget from the pods of its namespace. It knows no replicas that a controller wants: Kubernetes then counts none. */
export function buildBudgetStatus(budget: JsonObject, pods: readonly JsonObject[], time: string): JsonObject {
  const mine = pods.filter((pod) => selectsPod(budget, pod));
  const { minAvailable } = objectAt(budget, "spec");
  const isCounted = typeof minAvailable === "number";
  const currentHealthy = mine.filter((pod) => !isDeleting(pod) && isReady(pod)).length;
  const desiredHealthy = isCounted ? minAvailable : 0;
  const expectedPods = isCounted ? mine.length : 0;
  const disruptionsAllowed = expectedPods === 0 ? 0 : Math.max(0, currentHealthy - desiredHealthy);
  const observedGeneration = numberAt(budget, "metadata", "generation") ?? 1;
  return {
    observedGeneration,
    disruptionsAllowed,
    currentHealthy,
    desiredHealthy,
    expectedPods,
    conditions: buildConditions(budget, disruptionsAllowed > 0, observedGeneration, time),
  };
}

const CONDITION = "DisruptionAllowed";

function buildConditions(budget: JsonObject, allowed: boolean, observedGeneration: number, time: string): JsonValue[] {
  const known = listAt(budget, "status", "conditions");
  const before = known.find((condition) => textAt(condition, "type") === CONDITION);
  const status = allowed ? "True" : "False";
  const since = textAt(before, "status") === status ? textAt(before, "lastTransitionTime") : time;
  const condition = {
    type: CONDITION,
    status,
    observedGeneration,
    lastTransitionTime: since,
    reason: allowed ? "SufficientPods" : "InsufficientPods",
    message: "",
  };
  return [...known.filter((one) => one !== before), condition];
}

export type EvictionVerdict =
  | { readonly kind: "evict"; readonly because: "nothing-to-protect" | "no-budget" | "unready" | "budget-allows" }
  | { readonly kind: "refuse"; readonly because: "several-budgets" }
  | {
      readonly kind: "refuse";
      readonly because: "budget-spent";
      readonly budget: string;
      readonly needed: number;
      readonly healthy: number;
    };

/** Decides an eviction by the current budgets of the pod's namespace. */
export function decideEviction(pod: JsonObject, budgets: readonly JsonObject[]): EvictionVerdict {
  const isOver = ["Succeeded", "Failed", "Pending", ""].includes(textAt(pod, "status", "phase"));
  if (isOver || isDeleting(pod)) return { kind: "evict", because: "nothing-to-protect" };
  const [budget, ...others] = budgets.filter((one) => selectsPod(one, pod));
  if (budget === undefined) return { kind: "evict", because: "no-budget" };
  if (others.length > 0) return { kind: "refuse", because: "several-budgets" };
  const count = (field: string): number => numberAt(budget, "status", field) ?? 0;
  const healthy = count("currentHealthy");
  const needed = count("desiredHealthy");
  if (!isReady(pod)) {
    const isAlwaysAllowed = textAt(budget, "spec", "unhealthyPodEvictionPolicy") === "AlwaysAllow";
    if (isAlwaysAllowed || (needed > 0 && healthy >= needed)) return { kind: "evict", because: "unready" };
  }
  if (count("disruptionsAllowed") > 0) return { kind: "evict", because: "budget-allows" };
  return { kind: "refuse", because: "budget-spent", budget: nameOf(budget), needed, healthy };
}

/** Returns whether the budget selects the pod: without a selector it selects none, with an empty one all in its namespace. */
export function selectsPod(budget: JsonObject, pod: JsonObject): boolean {
  const selector = objectAt(budget, "spec")["selector"];
  return selector !== undefined && matchesSelector(selector, labelsOf(pod));
}

function isReady(pod: JsonObject): boolean {
  return listAt(pod, "status", "conditions").some(
    (condition) => textAt(condition, "type") === "Ready" && textAt(condition, "status") === "True",
  );
}
