import { groupOf } from "./build-demands.ts";
import type { BootingNodes } from "./build-pool-facts.ts";
import type { Wait, WaitCode } from "./describe-waits.ts";
import type { Owner, ScaledNode } from "./node.ts";

export type DemandExplanation = {
  readonly known: boolean;
  readonly code: WaitCode | undefined;
  readonly message: string;
  readonly booting: readonly BootingNodes[];
};

/** What is being done about the machines that an owner waits for. */
export function explainDemand(owner: Owner, waits: readonly Wait[], nodes: readonly ScaledNode[]): DemandExplanation {
  const group = groupOf(owner);
  const wait = waits.find((candidate) => candidate.group === group);
  if (wait === undefined) {
    const message = "no need of it is known that further nodes could meet";
    return { known: false, code: undefined, message, booting: [] };
  }
  const mine = nodes.filter(
    ({ status }) =>
      (status.phase === "Creating" || status.phase === "Created") && status.boundTo?.startsWith(`${group}/`) === true,
  );
  const kinds = Map.groupBy(mine, ({ spec }) => `${spec.instanceType}\n${spec.spot}`);
  const booting = [...kinds.values()].flatMap((nodesOfKind) => {
    const [first] = nodesOfKind;
    if (first === undefined) return [];
    const { instanceType, spot } = first.spec;
    const sinceMs = Math.min(...nodesOfKind.map(({ status }) => status.createdAtMs));
    return [{ instanceType, spot, count: nodesOfKind.length, sinceMs }];
  });
  return { known: true, code: wait.code, message: wait.message, booting };
}
