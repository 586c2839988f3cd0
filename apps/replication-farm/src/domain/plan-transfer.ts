import { computeBackoffMs } from "@muster/backoff";
import { isAvailable } from "./decide-available.ts";
import { countDesired, isFrozen } from "./count-desired.ts";
import { describeTransferReason } from "./describe-transfer.ts";
import { describeForeign } from "./explain-nodes.ts";
import { countPlaced, findCandidateNodes, isReady, placeReplica, findReplicaPod, auditNodes } from "./places.ts";
import type { ReplicaPlacement, ReplicaSet, PodTransfer } from "./replica-set.ts";
import { buildSetWait, type SetAudit, type SetChange, type SetPlan } from "./set-plan.ts";
import type { ObservedNodes } from "./eligible-nodes.ts";
import type { SetPolicy, SetSnapshot } from "./set-snapshot.ts";
import { isTroubleWorse } from "./troubles.ts";

/**
 * Replaces a node that is no longer eligible: one at a time for each set, and none in a rolling update. No transfer removes a healthy pod from a set whose
 * other pods are not all healthy. The old pod stays until the new one is ready; a late transfer is rolled back.
 */
export function planTransfer(snapshot: SetSnapshot, policy: SetPolicy): SetPlan {
  const { transfer } = snapshot.set;
  if (transfer === undefined) return planStart(snapshot, policy);
  return planProgress(snapshot, policy, transfer);
}

/** Ends a transfer without a new node once the old node is eligible again, or is removed anyway because fewer replicas are desired. */
export function planObsoleteTransfer({ set, rollout, nodes }: SetSnapshot): SetPlan {
  const { transfer, placements } = set;
  if (transfer === undefined || placements.some(({ node }) => node === transfer.newNode)) return buildSetWait();
  const isFitAgain = transfer.because.code !== "REQUESTED" && nodes?.eligible.has(transfer.oldNode) === true;
  const isSurplus = !isFrozen(set, rollout) && countDesired(set, rollout, nodes?.eligible.size) < countPlaced(set);
  if (!isFitAgain && !isSurplus) return buildSetWait();
  const why = isFitAgain ? `${transfer.oldNode} is eligible again` : "fewer replicas are wanted";
  const next = { ...set, transfer: undefined };
  return {
    change: { next, because: "transfer-moot", audits: [audit("NODE_TRANSFER_ROLLBACK", set, transfer, why)] },
    waits: [],
  };
}

function planStart(snapshot: SetSnapshot, policy: SetPolicy): SetPlan {
  const { set, rollout, nodes, nowMs } = snapshot;
  if (set.spec.allocationStrategy === "static" || set.spec.daemon || rollout !== undefined || nodes === undefined)
    return buildSetWait();
  const isWell = (placement: ReplicaPlacement): boolean => isReady(snapshot, placement);
  const leaving = set.placements.filter(({ node }) => !nodes.eligible.has(node));
  // The transfer of an unhealthy replica loses no healthy one, so it does not wait for healthy replicas.
  const old = leaving.find((placement) => !isWell(placement)) ?? leaving[0];
  if (old === undefined) return buildSetWait();
  if (set.transfersHeld !== undefined) return buildSetWait("transfer-held");
  if (nowMs < set.transferNotBeforeMs) return buildSetWait("transfer-pause");
  if (snapshot.failsafe) return buildSetWait("failsafe");
  if (isWell(old) && !set.placements.every(isWell)) return buildSetWait("others-unhealthy");
  const transfer: PodTransfer = {
    id: `${set.uid}-${set.nextOrdinal}`,
    oldNode: old.node,
    newNode: undefined,
    startedAtMs: nowMs,
    deadlineMs: nowMs + policy.transferMs,
    because: { code: "NODE_INELIGIBLE", detail: whyIneligible(set, nodes, old.node) },
  };
  const next = { ...set, transfer };
  return {
    change: { next, because: "node-ineligible", audits: [audit("NODE_TRANSFER_START", set, transfer)] },
    waits: [],
  };
}

function whyIneligible({ spec }: ReplicaSet, { usable, unusable, foreign }: ObservedNodes, node: string): string {
  const pod = foreign.get(node);
  if (!usable.has(node)) return unusable.get(node) ?? "it is gone";
  return pod === undefined ? "its labels no longer match" : describeForeign(pod, spec.podId);
}

function planProgress(snapshot: SetSnapshot, policy: SetPolicy, transfer: PodTransfer): SetPlan {
  const { set, nodes, nowMs } = snapshot;
  const old = set.placements.find(({ node }) => node === transfer.oldNode);
  const fresh = set.placements.find(({ node }) => node === transfer.newNode);
  if (old === undefined) {
    const next = { ...set, transfer: undefined };
    return { change: { next, because: "transfer-moot", audits: [] }, waits: [] };
  }
  if (snapshot.failsafe) return buildSetWait("failsafe");
  const pod = fresh && findReplicaPod(set, snapshot.pods, fresh);
  if (isAvailable(pod, set.spec, nowMs)) return { change: complete(set, transfer, old), waits: [] };
  const lost = fresh !== undefined && nodes?.eligible.has(fresh.node) === false;
  // A pod that is ready in time may reach minReadySeconds after the deadline.
  const late = nowMs >= transfer.deadlineMs && !(fresh !== undefined && isReady(snapshot, fresh));
  if (lost || late) return { change: rollBack(snapshot, policy, transfer, lost), waits: [] };
  if (fresh !== undefined) return buildSetWait("transfer-starting");
  const node = findCandidateNodes(snapshot).find((each) => each !== transfer.oldNode);
  if (node === undefined) return buildSetWait("transfer-allocating");
  const next = { ...placeReplica(snapshot, set, node), transfer: { ...transfer, newNode: node } };
  return { change: { next, because: "transfer-placed", audits: [] }, waits: [] };
}

function complete(set: ReplicaSet, transfer: PodTransfer, old: ReplicaPlacement): SetChange {
  const next: ReplicaSet = {
    ...set,
    placements: set.placements.filter((each) => each !== old),
    transfer: undefined,
    transferFailures: 0,
    trouble: set.trouble?.code === "TRANSFER_FAILED" ? undefined : set.trouble,
  };
  return {
    next,
    because: "transfer-done",
    audits: [audit("NODE_TRANSFER_COMPLETION", set, transfer), auditNodes(next)],
  };
}

function rollBack(
  { set, nowMs, nodes }: SetSnapshot,
  { transferMs, transferRetry }: SetPolicy,
  transfer: PodTransfer,
  lost: boolean,
): SetChange {
  const { oldNode, newNode } = transfer;
  const failures = set.transferFailures + 1;
  const why =
    newNode === undefined
      ? `no other node was free within ${transferMs / 1000} s`
      : lost
        ? `the new node ${newNode} is no longer eligible`
        : `the pod on ${newNode} was not ready within ${transferMs / 1000} s`;
  const isOldFit = nodes?.eligible.has(oldNode) === true;
  const isRetried = !isOldFit && set.spec.allocationStrategy === "dynamic";
  const outlook = isRetried ? `attempt ${failures}` : "it is not retried";
  const message = `leaving ${oldNode} (${describeTransferReason(transfer.because)}) failed: ${why}; ${outlook}`;
  const isHidden = set.trouble !== undefined && isTroubleWorse(set.trouble.code, "TRANSFER_FAILED");
  const back = { ...set, placements: set.placements.filter(({ node }) => node !== newNode), transfer: undefined };
  const next: ReplicaSet = isOldFit
    ? back
    : {
        ...back,
        transferFailures: failures,
        // Sets do not fail simultaneously, so their pauses need no jitter.
        transferNotBeforeMs: nowMs + computeBackoffMs(failures, transferRetry, () => 1),
        trouble: isHidden ? set.trouble : { code: "TRANSFER_FAILED", message, sinceMs: nowMs },
      };
  const rollback = audit("NODE_TRANSFER_ROLLBACK", set, transfer, isRetried ? why : `${why}; ${outlook}`);
  return {
    next,
    because: "transfer-failed",
    audits: newNode === undefined ? [rollback] : [rollback, auditNodes(next)],
  };
}

function audit(eventType: SetAudit["eventType"], set: ReplicaSet, transfer: PodTransfer, reason?: string): SetAudit {
  const { id, oldNode, newNode } = transfer;
  const { podId, nodeSelector, replicasDesired } = set.spec;
  return {
    eventType,
    details: {
      transfer_id: id,
      pod_id: podId,
      node_selector: nodeSelector,
      old_node: oldNode,
      new_node: newNode ?? "",
      replicas_desired: replicasDesired,
      reason: reason ?? describeTransferReason(transfer.because),
    },
  };
}
