import type { Standing } from "@muster/ledger-client/plan-sweep";
import { podNameOf, type ReplicaSet } from "./replica-set.ts";
import type { LedgerSight } from "./set-snapshot.ts";

export type AllocationStep =
  | { readonly kind: "allocate"; readonly number: number; readonly pool: string; readonly because: "not-asked" }
  | {
      readonly kind: "deallocate";
      readonly number: number;
      readonly reservation: string;
      /** Undefined: it only waits. */
      readonly node: string | undefined;
      readonly because: "not-wanted" | "other-pool";
    }
  | { readonly kind: "wait"; readonly number: number; readonly because: "pods-there" | "failsafe" };

/** Where a pod of the set is; the node is empty until it is placed. */
export type PodPlace = { readonly name: string; readonly node: string };

/** What makes the ledger what the record says: a request for each machine, and none for what is not in the record, once no pod of the set can be there. */
export function planAllocation(
  set: ReplicaSet,
  ledger: LedgerSight,
  { pods, failsafe }: { readonly pods: Iterable<PodPlace>; readonly failsafe: boolean },
): AllocationStep[] {
  if (!ledger.known) return [];
  const wanted = new Map(set.machines.map(({ number, pool }) => [number, pool]));
  const steps: AllocationStep[] = [];
  for (const { number, pool, grant } of set.machines)
    if (grant === undefined && !ledger.byNumber.has(number))
      steps.push({ kind: "allocate", number, pool, because: "not-asked" });
  const places = [...pods];
  for (const [number, sight] of ledger.byNumber) {
    if (sight.kind === "gone" || wanted.get(number) === sight.pool) continue;
    const { reservation } = sight;
    const node = sight.kind === "granted" ? sight.node : undefined;
    const because = wanted.has(number) ? "other-pool" : "not-wanted";
    if (failsafe && set.deletion === undefined) steps.push({ kind: "wait", number, because: "failsafe" });
    else if (node !== undefined && !isClear(set, places, node))
      steps.push({ kind: "wait", number, because: "pods-there" });
    else steps.push({ kind: "deallocate", number, reservation, node, because });
  }
  return steps;
}

/** Whether none of these pods is on the node or may still come there: one that is not placed yet, and has no place in the record, may be on its way to any. */
export function isClear(set: ReplicaSet, pods: Iterable<PodPlace>, node: string): boolean {
  const wanted = new Set(set.placements.map(({ ordinal }) => podNameOf(set.name, ordinal)));
  for (const pod of pods) if (pod.node === node || (pod.node === "" && !wanted.has(pod.name))) return false;
  return true;
}

/** What the ledger has under the name of a set and a number. */
export type OwnedReservation = { readonly set: string; readonly number: number; readonly reservation: string };

/** Whether a reservation is left over. `sets`: all that are stored, read after the reservations; `withPods`: names by which pods go, which have to go first. */
export function reservationStanding(
  { set }: Pick<OwnedReservation, "set">,
  { sets, withPods }: { readonly sets: ReadonlySet<string>; readonly withPods: ReadonlySet<string> },
): Standing {
  if (sets.has(set)) return { kind: "owned", because: "its set exists" };
  return withPods.has(set) ? { kind: "blocked", because: "pods-there" } : { kind: "left", because: "orphan" };
}
