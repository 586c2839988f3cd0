import { buildDemandGroup } from "./build-demands.ts";
import type { BootingNodes } from "./build-pool-facts.ts";
import type { PoolTrouble } from "./build-pool-troubles.ts";
import type { GroupWait, WaitCode } from "./describe-waits.ts";
import type { Owner } from "@muster/names";
import type { ScaledNode } from "./node.ts";

type DemandExplanation = {
  readonly known: boolean;
  readonly code: WaitCode | undefined;
  readonly message: string;
  readonly booting: readonly BootingNodes[];
  /** Failed boots in the pools for which the demand waits: current boots may fail too. */
  readonly troubles: readonly PoolTrouble[];
};

type DemandPlan = { readonly waits: readonly GroupWait[]; readonly bindings: ReadonlyMap<string, string> };

/** Explains the scaler's work on the machines that an owner waits for. */
export function explainDemand(
  owner: Owner,
  { waits, bindings }: DemandPlan,
  nodes: readonly ScaledNode[],
  troubles: readonly PoolTrouble[],
): DemandExplanation {
  const group = buildDemandGroup(owner);
  const wait = waits.find((candidate) => candidate.group === group);
  if (wait === undefined) {
    const message = "no need of it is known that further nodes could meet";
    return { known: false, code: undefined, message, booting: [], troubles: [] };
  }
  // A node that serves several demands is bound to only one of them.
  const shared = new Set(wait.demands.map((demand) => bindings.get(demand)));
  const mine = nodes.filter(
    ({ name, status }) =>
      (status.phase === "Creating" || status.phase === "Created") &&
      (status.boundTo?.startsWith(`${group}/`) === true || shared.has(name)),
  );
  const kinds = Map.groupBy(mine, ({ spec }) => `${spec.instanceType}\n${spec.spot}`);
  const booting = [...kinds.values()].flatMap((nodesOfKind) => {
    const [first] = nodesOfKind;
    if (first === undefined) return [];
    const { instanceType, spot } = first.spec;
    const sinceMs = Math.min(...nodesOfKind.map(({ status }) => status.createdAtMs));
    return [{ instanceType, spot, count: nodesOfKind.length, sinceMs }];
  });
  const failing = troubles.filter(({ pool, boots }) => boots > 0 && wait.pools.includes(pool));
  return { known: true, code: wait.code, message: wait.message, booting, troubles: failing };
}
