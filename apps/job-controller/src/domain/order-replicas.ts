import type { ReplicaSpec } from "./job.ts";

type Waiting = Pick<ReplicaSpec, "type" | "dependsOn">;

/** Sorts replica types after those on which they depend, and otherwise by name. The types in `cycle` depend on each other. */
export function orderReplicas<Replica extends Waiting>(
  replicas: readonly Replica[],
): { readonly ordered: readonly Replica[]; readonly cycle: readonly Replica[] } {
  const ordered: Replica[] = [];
  const placed = new Set<string>();
  const left = [...replicas].sort((a, b) => (a.type < b.type ? -1 : 1));
  for (;;) {
    const next = left.findIndex(({ dependsOn }) => dependsOn.every(({ type }) => placed.has(type)));
    const [replica] = next < 0 ? [] : left.splice(next, 1);
    if (replica === undefined) return { ordered, cycle: left };
    ordered.push(replica);
    placed.add(replica.type);
  }
}
