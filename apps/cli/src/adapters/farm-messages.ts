import { muster } from "@muster/proto";
import type { ExplainedSet, Replica, ReplicaSet, Roll, SetAudit } from "../domain/replica-set.ts";
import { MIN_READY_SECONDS, type SetSpec } from "../domain/set-document.ts";

const wire = muster.farm.v1;
const { ALLOCATION_STRATEGY_DYNAMIC, ALLOCATION_STRATEGY_STATIC } = wire.AllocationStrategy;
const { Health } = muster.health.v1;

const HEALTH_FROM_WIRE = new Map<number, string>([
  [Health.HEALTH_READY, "READY"],
  [Health.HEALTH_NOT_READY, "NOT_READY"],
  [Health.HEALTH_SUCCEEDED, "SUCCEEDED"],
  [Health.HEALTH_FAILED, "FAILED"],
]);

const PHASE_FROM_WIRE = new Map<number, string>([
  [wire.RollPhase.ROLL_PHASE_CREATING, "CREATING"],
  [wire.RollPhase.ROLL_PHASE_RUNNING, "RUNNING"],
  [wire.RollPhase.ROLL_PHASE_PAUSED, "PAUSED"],
  [wire.RollPhase.ROLL_PHASE_FINISHING, "FINISHING"],
]);

export function setSpecToMessage(spec: SetSpec): muster.farm.v1.ReplicaSetSpec.$Properties {
  const { podId, template, nodeSelector, pool, replicas, allocationStrategy, minReadySeconds, daemon, labels } = spec;
  return {
    podId,
    templateJson: JSON.stringify(template),
    nodeSelector,
    pool,
    ...(replicas !== undefined && { replicasDesired: replicas }),
    allocationStrategy: allocationStrategy === "Static" ? ALLOCATION_STRATEGY_STATIC : ALLOCATION_STRATEGY_DYNAMIC,
    minReadySeconds,
    daemon,
    labels: { ...labels },
  };
}

function specFromMessage(message: muster.farm.v1.ReplicaSetSpec.$Properties): SetSpec {
  const daemon = message.daemon ?? false;
  return {
    podId: message.podId ?? "",
    replicas: daemon ? undefined : (message.replicasDesired ?? undefined),
    daemon,
    nodeSelector: message.nodeSelector ?? "",
    pool: message.pool ?? "",
    allocationStrategy: message.allocationStrategy === ALLOCATION_STRATEGY_STATIC ? "Static" : "Dynamic",
    minReadySeconds: message.minReadySeconds ?? MIN_READY_SECONDS.fallback,
    template: objectOf(message.templateJson),
    labels: { ...message.labels },
  };
}

export function setFromMessage(message: muster.farm.v1.ReplicaSet.$Properties): ReplicaSet {
  const record = message.record ?? {};
  const { transfer, transfersHeld: held, deletion, trouble } = record;
  return {
    name: record.name ?? "",
    uid: record.uid ?? "",
    revision: message.revision ?? 0,
    generation: record.generation ?? 0,
    spec: specFromMessage(record.spec ?? {}),
    desired: message.replicasDesired ?? 0,
    healthy: message.healthy ?? 0,
    eligibleNodes: message.eligibleNodes ?? 0,
    replicas: (message.replicas ?? []).map(replicaFromMessage),
    farm: message.farm ?? "",
    disabled: record.disabled ?? false,
    transfer: transfer
      ? {
          oldNode: transfer.oldNode ?? "",
          newNode: transfer.newNode ?? "",
          because: transfer.because ?? "",
          startedAtMs: transfer.startedAtMs ?? 0,
          givenUpAtMs: transfer.deadlineMs ?? 0,
        }
      : undefined,
    held: held ? { by: held.by ?? "", because: held.because ?? "", atMs: held.atMs ?? 0 } : undefined,
    transferFailures: record.transferFailures ?? 0,
    transferNotBeforeAtMs: record.transferNotBeforeMs ?? 0,
    roll: record.roll ?? "",
    deletion: deletion ? { keepPods: deletion.keepPods ?? false, atMs: deletion.atMs ?? 0 } : undefined,
    trouble: trouble ? troubleFromMessage(trouble) : undefined,
    createdAtMs: record.createdAtMs ?? 0,
  };
}

function replicaFromMessage(message: muster.farm.v1.Replica.$Properties): Replica {
  return {
    node: message.node ?? "",
    pod: message.pod ?? "",
    health: HEALTH_FROM_WIRE.get(message.health ?? 0) ?? "UNKNOWN",
    reason: message.reason ?? "",
    message: message.message ?? "",
    eligible: message.eligible ?? false,
  };
}

function troubleFromMessage({ code, message, sinceMs }: muster.farm.v1.Trouble.$Properties) {
  return { code: code ?? "", message: message ?? "", sinceMs: sinceMs ?? 0 };
}

export function rollFromMessage(message: muster.farm.v1.Roll.$Properties): Roll {
  const record = message.record ?? {};
  return {
    id: record.id ?? "",
    revision: message.revision ?? 0,
    oldSet: record.oldSet ?? "",
    newSet: record.newSet ?? "",
    phase: PHASE_FROM_WIRE.get(record.phase ?? 0) ?? "UNKNOWN",
    target: record.replicasDesired ?? 0,
    minimum: record.minimumReplicas ?? 0,
    leaveOld: record.leaveOld ?? false,
    delayMs: record.rollDelayMs ?? 0,
    oldDesired: record.oldDesired ?? 0,
    newDesired: record.newDesired ?? 0,
    oldCurrent: message.oldCurrent ?? 0,
    newCurrent: message.newCurrent ?? 0,
    oldHealthy: message.oldHealthy ?? 0,
    newHealthy: message.newHealthy ?? 0,
    undone: record.undone ?? 0,
    waitingBecause: message.waitingBecause ?? "",
    trouble: record.trouble ? troubleFromMessage(record.trouble) : undefined,
    createdAtMs: record.createdAtMs ?? 0,
  };
}

export function explainedFromMessage(message: muster.farm.v1.ExplainReplicaSetReply.$Properties): ExplainedSet {
  return {
    set: setFromMessage(message.set ?? {}),
    roll: message.roll ? rollFromMessage(message.roll) : undefined,
    nodesKnown: message.nodesKnown ?? false,
    nodes: (message.nodes ?? []).map(({ node, code, message: why }) => ({
      node: node ?? "",
      code: code ?? "",
      message: why ?? "",
    })),
    nodesMore: message.nodesMore ?? 0,
  };
}

export function auditFromMessage(message: muster.farm.v1.AuditRecord.$Properties): SetAudit {
  return {
    id: message.id ?? "",
    event: message.eventType ?? "",
    atMs: message.timestampMs ?? 0,
    details: objectOf(message.eventDetails),
    traceparent: message.traceparent ?? "",
  };
}

/** What a farm has written as JSON; nothing where it is none. */
function objectOf(text: string | null | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
