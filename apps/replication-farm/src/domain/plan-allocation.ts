import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import type { OwnerStanding } from "@muster/ledger-client/plan-sweep";
import { buildPodName, type ReplicaSet } from "./replica-set.ts";
import type { LedgerState } from "./set-snapshot.ts";

export type AllocationStep =
  | {
      readonly kind: "allocate";
      readonly number: number;
      readonly pool: string;
      /** Undefined: no queue exists. */
      readonly queue: string | undefined;
      readonly because: "not-asked";
    }
  | {
      readonly kind: "deallocate";
      readonly number: number;
      readonly reservation: string;
      /** Undefined: the reservation waits. */
      readonly node: string | undefined;
      readonly because: "not-wanted" | "other-pool" | "other-queue";
    }
  | { readonly kind: "wait"; readonly number: number; readonly because: "pods-there" | "failsafe" };

/** The node of a pod of the set; empty until it is scheduled. */
type PodPlace = { readonly name: string; readonly node: string };

/**
 * Makes the ledger match the record: requests each machine, and releases each reservation that is not in the record once no pod of the set can be on its node.
 */
export function planAllocation(
  set: ReplicaSet,
  ledger: LedgerState,
  { pods, failsafe }: { readonly pods: Iterable<PodPlace>; readonly failsafe: boolean },
): AllocationStep[] {
  if (!ledger.known) return [];
  const wanted = new Map(set.machines.map(({ number, pool }) => [number, pool]));
  const steps: AllocationStep[] = [];
  const { queue: choice = NO_QUEUE } = ledger;
  const queue = choice.kind === "queue" ? choice.name : undefined;
  if (choice.kind === "queue" || choice.kind === "none")
    for (const { number, pool, grant } of set.machines)
      if (grant === undefined && !ledger.byNumber.has(number))
        steps.push({ kind: "allocate", number, pool, queue, because: "not-asked" });
  const places = [...pods];
  for (const [number, sight] of ledger.byNumber) {
    if (sight.kind === "gone") continue;
    const isMoved = sight.kind === "waiting" && choice.kind !== "unlisted" && !isInQueue(sight, choice);
    if (wanted.get(number) === sight.pool && !isMoved) continue;
    const { reservation } = sight;
    const node = sight.kind === "granted" ? sight.node : undefined;
    const because = whyNot(wanted.get(number), sight.pool);
    if (failsafe && set.deletion === undefined) steps.push({ kind: "wait", number, because: "failsafe" });
    else if (node !== undefined && !isNodeClearOf(set, places, node))
      steps.push({ kind: "wait", number, because: "pods-there" });
    else steps.push({ kind: "deallocate", number, reservation, node, because });
  }
  return steps;
}

const NO_QUEUE: QueueChoice = { kind: "none" };

/** A queued request follows the set to another queue, and is released while the set's queue is unknown. */
function isInQueue({ queue }: { readonly queue?: string }, choice: QueueChoice): boolean {
  return choice.kind !== "unknown" && queue === (choice.kind === "queue" ? choice.name : undefined);
}

function whyNot(wanted: string | undefined, pool: string): "not-wanted" | "other-pool" | "other-queue" {
  if (wanted === undefined) return "not-wanted";
  return wanted === pool ? "other-queue" : "other-pool";
}

/** Returns whether no pod of these is, or may still be scheduled, on the node. A pod without a node and without a placement may be scheduled anywhere. */
export function isNodeClearOf(set: ReplicaSet, pods: Iterable<PodPlace>, node: string): boolean {
  const wanted = new Set(set.placements.map(({ ordinal }) => buildPodName(set.name, ordinal)));
  for (const pod of pods) if (pod.node === node || (pod.node === "" && !wanted.has(pod.name))) return false;
  return true;
}

/** The reservation of one numbered machine of a set. */
export type OwnedReservation = { readonly set: string; readonly number: number; readonly reservation: string };

/** Returns whether a reservation is left over. `sets`: all stored sets, read after the reservations; `withPods`: sets whose pods must be deleted first. */
export function decideReservationStanding(
  { set }: Pick<OwnedReservation, "set">,
  { sets, withPods }: { readonly sets: ReadonlySet<string>; readonly withPods: ReadonlySet<string> },
): OwnerStanding {
  if (sets.has(set)) return { kind: "owned", because: "its set exists" };
  return withPods.has(set) ? { kind: "blocked", because: "pods-there" } : { kind: "left", because: "orphan" };
}
