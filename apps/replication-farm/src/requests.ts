import { throwFault } from "@muster/faults";
import { getTraceparent } from "@muster/tracing";
import { refuseOverlap, withMaxAge } from "./apply-set.ts";
import { buildAudits, buildClientDetails } from "./domain/audit.ts";
import { checkReplicas, refuseField, refuseDeleted, refuseInRollout } from "./domain/check-spec.ts";
import { describeTransferReason } from "./domain/describe-transfer.ts";
import { placeReplica } from "./domain/places.ts";
import type { PodTransfer } from "./domain/replica-set.ts";
import type { SetAudit } from "./domain/set-plan.ts";
import { explainNotFree } from "./node-verdicts.ts";
import { changeSet, requireSet, type SetRequest, type RequestDeps, type StoredSet } from "./request-deps.ts";

/** Rejects with conflict when `expected` differs from the current number of replicas. */
export function scaleSet(
  deps: RequestDeps,
  request: SetRequest & { readonly replicasDesired: number; readonly expected: number | undefined },
): Promise<StoredSet> {
  const { replicasDesired, expected, by } = request;
  checkReplicas("replicas_desired", replicasDesired);
  return changeSet(deps, request, (set) => {
    refuseDeleted(set);
    refuseInRollout(set, "scaled");
    if (set.spec.daemon) refuseField("name", `${set.name} has a pod on each eligible node, and no number of replicas`);
    const { replicasDesired: before } = set.spec;
    if (before === replicasDesired) return undefined;
    if (expected !== undefined && expected !== before)
      throwFault({
        code: "conflict",
        id: `replicas_desired of ${set.name}`,
        expectedRevision: expected,
        actualRevision: before,
      });
    const details = { pod_id: set.spec.podId, from: before, to: replicasDesired, ...buildClientDetails(by) };
    return {
      next: { ...set, spec: { ...set.spec, replicasDesired }, generation: set.generation + 1 },
      audits: [{ eventType: "SCALED", details }],
    };
  });
}

export async function enableSet(
  deps: RequestDeps,
  request: SetRequest & { readonly enabled: boolean },
): Promise<StoredSet> {
  const { enabled, by } = request;
  if (enabled) {
    const { record } = await requireSet(deps, request.name);
    if (record.disabled) await refuseOverlap(deps, withMaxAge({ ...record, disabled: false }));
  }
  return changeSet(deps, request, (set) => {
    refuseDeleted(set);
    if (set.disabled === !enabled) return undefined;
    refuseInRollout(set, enabled ? "enabled" : "disabled");
    const eventType = enabled ? "ENABLED" : "DISABLED";
    const details = { pod_id: set.spec.podId, ...buildClientDetails(by) };
    return { next: { ...set, disabled: !enabled }, audits: [{ eventType, details }] };
  });
}

type Removal = SetRequest & { readonly keepPods: boolean; readonly force: boolean };

/**
 * Deletes a set. A set with replicas, or in a rolling update, is deleted only by force, which ends the update. Its pods are deleted with it unless they are
 * kept. Undefined: its record was unreadable, and is removed.
 */
export async function removeSet(deps: RequestDeps, request: Removal): Promise<StoredSet | undefined> {
  const { name, keepPods, force, by } = request;
  const found = await deps.sets.get(name);
  if (found !== undefined && "unreadable" in found) return removeUnreadable(deps, request, found);
  return changeSet(deps, request, (set) => {
    if (set.deletion !== undefined) {
      if (keepPods && !set.deletion.keepPods)
        refuseField(
          "keep_pods",
          `${set.name} is being deleted with its pods already: the remaining ones cannot be kept`,
        );
      return undefined;
    }
    const { placements, name, spec, rollout } = set;
    if (rollout !== undefined && !force)
      refuseField(
        "force",
        `${name} is in rolling update ${rollout}: wait until that has ended, or use force, which ends it`,
      );
    if (keepPods && spec.pool !== undefined)
      refuseField(
        "keep_pods",
        `${name} is on machines of pool ${spec.pool}, which are released: its pods cannot stay there`,
      );
    if (placements.length > 0 && !force)
      refuseField("force", `${name} has ${placements.length} replicas: scale it to 0 first, or use force`);
    const details = { pod_id: set.spec.podId, keep_pods: keepPods, ...buildClientDetails(by) };
    return {
      next: { ...set, rollout: undefined, deletion: { keepPods, atMs: deps.now() } },
      audits: [{ eventType: "DELETED", details }],
    };
  });
}

/** No farm can act on an unreadable record, so it is removed immediately. Its pods and machines then have no set, and the sweep removes them. */
async function removeUnreadable(
  deps: RequestDeps,
  { name, keepPods, force, by }: Removal,
  { unreadable, revision }: { readonly unreadable: string; readonly revision: number },
): Promise<undefined> {
  if (!force) refuseField("record", `of ${name} cannot be read: ${unreadable}`);
  if (keepPods) refuseField("keep_pods", `the record of ${name} cannot be read: its pods cannot be kept`);
  const audit: SetAudit = { eventType: "DELETED", details: { unreadable, ...buildClientDetails(by) } };
  const [nowMs, traceparent] = [deps.now(), getTraceparent()];
  // Publish before the removal: no deletion may lack an audit, and no record can carry this one.
  await deps.auditLog.publish(buildAudits(name, [audit], { nowMs, traceparent, newId: deps.newId }));
  await deps.sets.remove(name, revision);
}

/** Starts a transfer from an eligible node to the given node; empty: to one of the farm's choice. */
export function transferNode(
  deps: RequestDeps,
  request: SetRequest & { readonly node: string; readonly newNode: string },
): Promise<StoredSet> {
  const { node, newNode, by } = request;
  return changeSet(deps, request, (set) => {
    refuseDeleted(set);
    refuseInRollout(set, "moved");
    const { name, transfer, placements, uid, nextOrdinal, spec } = set;
    if (transfer?.oldNode === node) return undefined;
    if (spec.daemon) refuseField("name", `${name} has a pod on each eligible node: make the node ineligible instead`);
    if (transfer !== undefined)
      refuseField("node", `${name} is leaving ${transfer.oldNode}; a set leaves one node at a time`);
    if (!placements.some((each) => each.node === node)) refuseField("node", `"${node}" has no replica of ${name}`);
    if (set.transfersHeld !== undefined)
      refuseField("name", `transfers of ${name} are held by ${set.transfersHeld.by}: ${set.transfersHeld.because}`);
    const obstacle = newNode === "" ? undefined : explainNotFree(deps, set, newNode);
    if (obstacle !== undefined) refuseField("new_node", `"${newNode}" cannot be taken: ${obstacle}`);
    const nowMs = deps.now();
    const started: PodTransfer = {
      id: `${uid}-${nextOrdinal}`,
      oldNode: node,
      newNode: newNode === "" ? undefined : newNode,
      startedAtMs: nowMs,
      deadlineMs: nowMs + deps.transferMs,
      because: { code: "REQUESTED" },
    };
    const details = {
      transfer_id: started.id,
      pod_id: spec.podId,
      old_node: node,
      new_node: newNode,
      reason: describeTransferReason(started.because),
      ...buildClientDetails(by),
    };
    const templateHash = deps.templateHash(set);
    const placed = newNode === "" ? set : placeReplica({ nowMs, templateHash }, set, newNode);
    return { next: { ...placed, transfer: started }, audits: [{ eventType: "NODE_TRANSFER_START", details }] };
  });
}

/** Holds new transfers; one in flight continues. */
export function holdTransfers(
  deps: RequestDeps,
  request: SetRequest & { readonly hold: boolean; readonly because: string },
): Promise<StoredSet> {
  const { hold, by, because } = request;
  if (hold && by === "") refuseField("by", "is empty: state who holds transfers");
  return changeSet(deps, request, (set) => {
    refuseDeleted(set);
    const { transfersHeld } = set;
    if (hold ? transfersHeld?.by === by && transfersHeld.because === because : transfersHeld === undefined)
      return undefined;
    const eventType = hold ? "TRANSFERS_HELD" : "TRANSFERS_RELEASED";
    const details = { pod_id: set.spec.podId, ...buildClientDetails(by), ...(hold && { reason: because }) };
    const next = { ...set, transfersHeld: hold ? { by, because, atMs: deps.now() } : undefined };
    return { next, audits: [{ eventType, details }] };
  });
}
