/** The nodes on which pods of leases may run: those that are in no pool, and those of some pools. */
export type LeaseNodes = {
  /** Label of nodes that names their pool. */
  readonly poolLabel: string;
  readonly pools: readonly string[];
};

/** Keeps pods that the ledger does not count off machines that it grants. */
export function buildNodeAffinity({ poolLabel: key, pools }: LeaseNodes) {
  const inNone = { matchExpressions: [{ key, operator: "DoesNotExist" }] };
  const inSome = { matchExpressions: [{ key, operator: "In", values: [...pools] }] };
  const nodeSelectorTerms = pools.length === 0 ? [inNone] : [inNone, inSome];
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
}

/** The same for people, with the setting that changes it. */
export function describeNodes({ poolLabel, pools }: LeaseNodes): string {
  const some = pools.length === 0 ? "" : ` or with ${poolLabel} = ${pools.join(", ")}`;
  return `it runs on nodes without the label "${poolLabel}"${some} (PROVISION_CONTAINER_POOLS)`;
}
