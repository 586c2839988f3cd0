import { buildBudgetStatus } from "./disruption.ts";
import { type JsonObject, put, sameJson } from "./json.ts";
import { disruptionBudgets } from "./kinds/disruption-budget.ts";
import { pods } from "./kinds/pod.ts";
import { namespaceOf, nameOf, timestamp } from "./metadata.ts";
import { passNamespaces } from "./pass-namespaces.ts";
import type { Registry } from "./registry.ts";
import { bucketOf } from "./resource.ts";
import { FailureError } from "./status.ts";
import type { ObjectStore } from "./store.ts";
import { keyNamespace } from "./watch-events.ts";

export type DisruptionDeps = {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly nowMs: () => number;
  readonly onDefect: (error: unknown) => void;
};

const PODS = bucketOf(pods);
const BUDGETS = bucketOf(disruptionBudgets);

/** Returns the budgets of a namespace with their current status, whatever the last pass wrote. */
export function budgetsNow({ store, nowMs }: Pick<DisruptionDeps, "store" | "nowMs">, namespace: string): JsonObject[] {
  const inside = (bucket: string): JsonObject[] =>
    store.entries(bucket).flatMap(([key, object]) => (keyNamespace(key) === namespace ? [object] : []));
  const budgets = inside(BUDGETS);
  if (budgets.length === 0) return [];
  const present = inside(PODS);
  const time = timestamp(nowMs());
  return budgets.map((budget) => put(budget, ["status"], buildBudgetStatus(budget, present, time)));
}

/** Updates the status of every budget soon after a change of it or of a pod in its namespace. */
export function startDisruptionController(deps: DisruptionDeps): Disposable {
  const { store, registry } = deps;
  const passes = passNamespaces((namespace) => {
    for (const budget of budgetsNow(deps, namespace)) write(registry, budget);
  }, deps.onDefect);
  for (const [key] of store.entries(BUDGETS)) passes.note(keyNamespace(key));
  const unsubscribe = store.subscribe((bucket, { key }) => {
    if (bucket === BUDGETS || (bucket === PODS && store.entries(BUDGETS).length > 0)) passes.note(keyNamespace(key));
  });
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      passes[Symbol.dispose]();
    },
  };
}

function write(registry: Registry, budget: JsonObject): void {
  const target = { resource: disruptionBudgets, namespace: namespaceOf(budget), name: nameOf(budget) };
  const before = registry.find(target);
  if (before === undefined || sameJson(before["status"], budget["status"])) return;
  try {
    registry.update(target, { subresource: "status", change: () => budget, dryRun: false });
  } catch (error) {
    // Another write came first, and has triggered the next pass.
    if (!(error instanceof FailureError)) throw error;
  }
}
