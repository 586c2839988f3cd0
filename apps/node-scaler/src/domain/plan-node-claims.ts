import { canOccupy } from "@muster/names";
import type { NodeChange } from "./change-node.ts";
import { describePassed } from "./describe-duration.ts";
import type { NodeClaim, ScaledNode } from "./node.ts";
import { buildTermination } from "./plan-heartbeat.ts";
import type { PoolPolicy } from "./pool.ts";
import {
  listHolders,
  isHeld,
  type Holder,
  type Machine,
  type Machines,
  type PodOnNode,
  type PodsByNode,
} from "./sightings.ts";

export type ClaimsSnapshot = {
  readonly nowMs: number;
  readonly nodes: readonly ScaledNode[];
  readonly policies: ReadonlyMap<string, PoolPolicy>;
  readonly machines: Machines;
  readonly pods: PodsByNode;
};

type ClaimReason =
  | "granted"
  | "granted-anew"
  | "occupied"
  | "reached"
  | "returned-unused"
  | "returned"
  | "clean"
  | "single-use"
  | "never-clean"
  | "clock-went-back";

export type ClaimStep = NodeChange & { readonly kind: "change"; readonly because: ClaimReason };

/**
 * Plans by the grants of the ledger. A granted node becomes Claimed. A released node becomes Available if no pod of the holder reached it; otherwise it is
 * cleaned and reused, or ends. Plans at most one step per node. The reaper handles nodes that must end.
 */
export function planNodeClaims(snapshot: ClaimsSnapshot): ClaimStep[] {
  const { machines, pods } = snapshot;
  return snapshot.nodes.flatMap((node) => {
    const { kubernetesNode } = node.status;
    if (kubernetesNode === undefined || node.spec.terminate !== undefined) return [];
    const machine = machines.byNode.get(kubernetesNode);
    // A machine that the ledger does not name may be missing from an incomplete list, so its state is unknown.
    if (machine === undefined && !machines.complete) return [];
    return planNode(node, machine, pods.get(kubernetesNode) ?? [], snapshot) ?? [];
  });
}

function planNode(
  node: ScaledNode,
  machine: Machine | undefined,
  pods: readonly PodOnNode[],
  snapshot: ClaimsSnapshot,
): ClaimStep | undefined {
  const { phase, claim } = node.status;
  const holders = machine === undefined ? [] : listHolders(machine);
  // A record names one holder: the earliest of several, and after its release the next one.
  const holder = holders.find(({ reservationId }) => reservationId === claim?.reservationId) ?? holders[0];
  const isReached = holders.some(({ owner }) => reached(owner, pods));
  if (phase === "Available" && holder !== undefined)
    return {
      ...begin(node, "granted"),
      phase: "Claimed",
      status: { ...claimed(holder, claim?.reached === true || isReached), served: true },
    };
  if (phase === "Available" && !node.status.served && (pods.length > 0 || isUsed(machine)))
    return { ...begin(node, "occupied"), status: { served: true } };
  // Available with a claim: the node was granted again during the cleaning, and has been released since.
  if (phase === "Cleaning" || (phase === "Available" && claim !== undefined))
    return planCleaning(node, machine, pods, snapshot);
  if (phase !== "Claimed" || claim === undefined) return undefined;
  if (holder === undefined) return claim.reached ? release(node, "returned") : release(node, "returned-unused");
  const was = claim.reached || isReached;
  if (holder.reservationId !== claim.reservationId)
    // Records the use of a node that was released and granted again between two rounds.
    return { ...begin(node, "granted-anew"), status: claimed(holder, was) };
  return was === claim.reached
    ? undefined
    : { ...begin(node, "reached"), status: { claim: { ...claim, reached: was } } };
}

function release(node: ScaledNode, because: "returned" | "returned-unused"): ClaimStep {
  if (because === "returned") return { ...begin(node, because), phase: "Cleaning" };
  return { ...begin(node, because), phase: "Available", status: unbound };
}

function planCleaning(
  node: ScaledNode,
  machine: Machine | undefined,
  pods: readonly PodOnNode[],
  { nowMs, policies }: ClaimsSnapshot,
): ClaimStep | undefined {
  const { claim, phaseSinceMs } = node.status;
  const policy = policies.get(node.spec.pool);
  const returned = (message: string, because: "single-use" | "never-clean"): ClaimStep => {
    const terminate = buildTermination({ code: "RETURNED", message }, node, policies, nowMs);
    return { ...begin(node, because), spec: { terminate } };
  };
  // Granted again: the use of the node is remembered.
  if (isHeld(machine)) return { ...begin(node, "clean"), phase: "Available", status: { ...unbound, claim } };
  if (policy === undefined || !policy.reuse) return returned("nodes of the pool are used once", "single-use");
  const left = claim !== undefined && reached(claim.owner, pods);
  if (!left && machine?.standing !== "OCCUPIED")
    return { ...begin(node, "clean"), phase: "Available", status: unbound };
  // A write replaces the future time by the present.
  if (phaseSinceMs > nowMs) return begin(node, "clock-went-back");
  const waitedMs = nowMs - phaseSinceMs;
  if (waitedMs < policy.drainTimeoutMs) return undefined;
  return returned(`its pods have not ended in ${describePassed(waitedMs)}`, "never-clean");
}

const unbound = { claim: undefined, boundTo: undefined, idleSinceMs: undefined, unhealthySinceMs: undefined };

function claimed({ owner, reservationId }: Holder, isReached: boolean): { claim: NodeClaim } {
  return { claim: { owner, reservationId, reached: isReached } };
}

/** Whether pods run on the machine whose owner has no part of it. */
function isUsed(machine: Machine | undefined): boolean {
  return machine?.standing === "OCCUPIED" || machine?.standing === "FOREIGN_USE";
}

function reached(owner: NodeClaim["owner"], pods: readonly PodOnNode[]): boolean {
  return pods.some((pod) => pod.owner !== undefined && canOccupy(pod.owner, owner));
}

function begin(node: ScaledNode, because: ClaimReason): ClaimStep {
  return { kind: "change", node: node.name, expected: node.status.phase, because };
}
