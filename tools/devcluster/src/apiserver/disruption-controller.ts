import { buildBudgetStatus } from "./disruption.ts";
import { type JsonObject, setAt, isSameJson } from "./json.ts";
import { disruptionBudgets } from "./kinds/disruption-budget.ts";
import { pods } from "./kinds/pod.ts";
import { getNamespace, getName, formatTimestamp } from "./metadata.ts";
import { passNamespaces } from "./pass-namespaces.ts";
import type { Registry } from "./registry.ts";
import { buildBucketName } from "./resource.ts";
import { FailureError } from "./status.ts";
import type { ObjectStore } from "./store.ts";
import { getKeyNamespace } from "./watch-events.ts";

export type DisruptionDeps = {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly nowMs: () => number;
  readonly onDefect: (error: unknown) => void;
};

const PODS = buildBucketName(pods);
const BUDGETS = buildBucketName(disruptionBudgets);

/** Returns the budgets of a namespace with their current status, whatever the last pass wrote. */
export function listBudgets(
  { store, nowMs }: Pick<DisruptionDeps, "store" | "nowMs">,
  namespace: string,
): JsonObject[] {
  const inside = (bucket: string): JsonObject[] =>
    store.entries(bucket).flatMap(([key, object]) => (getKeyNamespace(key) === namespace ? [object] : []));
  const budgets = inside(BUDGETS);
  if (budgets.length === 0) return [];
  const present = inside(PODS);
  const time = formatTimestamp(nowMs());
  return budgets.map((budget) => setAt(budget, ["status"], buildBudgetStatus(budget, present, time)));
}

/** Updates the status of every budget soon after a change of it or of a pod in its namespace. */
export function startDisruptionController(deps: DisruptionDeps): Disposable {
  const { store, registry } = deps;
  const passes = passNamespaces((namespace) => {
    for (const budget of listBudgets(deps, namespace)) write(registry, budget);
  }, deps.onDefect);
  for (const [key] of store.entries(BUDGETS)) passes.note(getKeyNamespace(key));
  const unsubscribe = store.subscribe((bucket, { key }) => {
    if (bucket === BUDGETS || (bucket === PODS && store.entries(BUDGETS).length > 0)) passes.note(getKeyNamespace(key));
  });
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      passes[Symbol.dispose]();
    },
  };
}

function write(registry: Registry, budget: JsonObject): void {
  const target = { resource: disruptionBudgets, namespace: getNamespace(budget), name: getName(budget) };
  const before = registry.find(target);
  if (before === undefined || isSameJson(before["status"], budget["status"])) return;
  try {
    registry.update(target, { subresource: "status", change: () => budget, dryRun: false });
  } catch (error) {
    // Another write came first, and has triggered the next pass.
    if (!(error instanceof FailureError)) throw error;
  }
}
