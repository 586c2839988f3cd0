import { type JsonValue, type JsonObject, getList, findNumber, getObject, getText } from "./json.ts";
import { isDeleting, getName } from "./metadata.ts";
import { matchesSelector } from "./object-selector.ts";
import { getLabels } from "./selectors.ts";

/** Builds the status of a budget from the pods of its namespace. It knows no replicas that a controller wants: Kubernetes then counts none. */
export function buildBudgetStatus(budget: JsonObject, pods: readonly JsonObject[], time: string): JsonObject {
  const mine = pods.filter((pod) => isSelectingPod(budget, pod));
  const { minAvailable } = getObject(budget, "spec");
  const isCounted = typeof minAvailable === "number";
  const currentHealthy = mine.filter((pod) => !isDeleting(pod) && isReady(pod)).length;
  const desiredHealthy = isCounted ? minAvailable : 0;
  const expectedPods = isCounted ? mine.length : 0;
  const disruptionsAllowed = expectedPods === 0 ? 0 : Math.max(0, currentHealthy - desiredHealthy);
  const observedGeneration = findNumber(budget, "metadata", "generation") ?? 1;
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
  const known = getList(budget, "status", "conditions");
  const before = known.find((condition) => getText(condition, "type") === CONDITION);
  const status = allowed ? "True" : "False";
  const since = getText(before, "status") === status ? getText(before, "lastTransitionTime") : time;
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
  const isOver = ["Succeeded", "Failed", "Pending", ""].includes(getText(pod, "status", "phase"));
  if (isOver || isDeleting(pod)) return { kind: "evict", because: "nothing-to-protect" };
  const [budget, ...others] = budgets.filter((one) => isSelectingPod(one, pod));
  if (budget === undefined) return { kind: "evict", because: "no-budget" };
  if (others.length > 0) return { kind: "refuse", because: "several-budgets" };
  const count = (field: string): number => findNumber(budget, "status", field) ?? 0;
  const healthy = count("currentHealthy");
  const needed = count("desiredHealthy");
  if (!isReady(pod)) {
    const isAlwaysAllowed = getText(budget, "spec", "unhealthyPodEvictionPolicy") === "AlwaysAllow";
    if (isAlwaysAllowed || (needed > 0 && healthy >= needed)) return { kind: "evict", because: "unready" };
  }
  if (count("disruptionsAllowed") > 0) return { kind: "evict", because: "budget-allows" };
  return { kind: "refuse", because: "budget-spent", budget: getName(budget), needed, healthy };
}

/** Returns whether the budget selects the pod: without a selector it selects none, with an empty one all in its namespace. */
export function isSelectingPod(budget: JsonObject, pod: JsonObject): boolean {
  const selector = getObject(budget, "spec")["selector"];
  return selector !== undefined && matchesSelector(selector, getLabels(pod));
}

function isReady(pod: JsonObject): boolean {
  return getList(pod, "status", "conditions").some(
    (condition) => getText(condition, "type") === "Ready" && getText(condition, "status") === "True",
  );
}
