import type { DeleteOptions } from "./deletion.ts";
import { listBudgets } from "./disruption-controller.ts";
import { decideEviction } from "./disruption.ts";
import { type JsonObject, getList, setAt, getText } from "./json.ts";
import { getName, formatTimestamp } from "./metadata.ts";
import type { ObjectName, Registry } from "./registry.ts";
import { badRequest, fail, type Failure } from "./status.ts";
import type { ObjectStore } from "./store.ts";

export type EvictionDeps = { readonly registry: Registry; readonly store: ObjectStore; readonly nowMs: () => number };

/**
 * Deletes a pod unless a disruption budget forbids it; then fails as Kubernetes does. Decision and deletion are one step, so that no two evictions use the same
 * allowance.
 */
export function evictPod(
  deps: EvictionDeps,
  target: ObjectName,
  eviction: JsonObject,
  options: DeleteOptions & { readonly dryRun: boolean },
): void {
  const { registry, nowMs } = deps;
  if (getName(eviction) !== target.name) fail(badRequest("name in URL does not match name in Eviction object"));
  const pod = registry.get(target);
  const verdict = decideEviction(pod, listBudgets(deps, target.namespace));
  if (verdict.kind === "refuse") {
    return fail(verdict.because === "several-budgets" ? SEVERAL_BUDGETS : budgetSpent(verdict));
  }
  const { dryRun, ...rest } = options;
  // Preconditions apply to the pod as the client knows it, without the fields that are added here.
  registry.delete(target, rest, true);
  if (!dryRun) {
    const change = (): JsonObject => withTarget(pod, formatTimestamp(nowMs()));
    registry.update(target, { subresource: "status", change, dryRun: false });
    registry.delete(target, { ...rest, revision: undefined }, false);
  }
}

const SEVERAL_BUDGETS: Failure = {
  code: 500,
  reason: "",
  message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
};

function budgetSpent({ budget, needed, healthy }: { budget: string; needed: number; healthy: number }): Failure {
  const message = `The disruption budget ${budget} needs ${needed} healthy pods and has ${healthy} currently`;
  return {
    code: 429,
    reason: "TooManyRequests",
    message: "Cannot evict pod as it would violate the pod's disruption budget.",
    details: { causes: [{ reason: "DisruptionBudget", message }] },
  };
}

/** Records the reason of the end on the pod. */
function withTarget(pod: JsonObject, time: string): JsonObject {
  const others = getList(pod, "status", "conditions").filter((one) => getText(one, "type") !== "DisruptionTarget");
  const condition = {
    type: "DisruptionTarget",
    status: "True",
    lastProbeTime: null,
    lastTransitionTime: time,
    reason: "EvictionByEvictionAPI",
    message: "Eviction API: evicting",
  };
  return setAt(pod, ["status", "conditions"], [...others, condition]);
}
