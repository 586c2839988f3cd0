import { capitalizeNames, enums, muster } from "@muster/proto";
import type { ExplainedSet, Replica, ReplicaSet, Roll, SetAudit } from "../domain/replica-set.ts";
import { MIN_READY_SECONDS, type SetSpec } from "../domain/set-document.ts";
import { explainedFromMessage } from "./explanation-messages.ts";

const STRATEGIES = capitalizeNames(enums.AllocationStrategy);

export function setSpecToMessage(spec: SetSpec): muster.farm.v1.ReplicaSetSpec.$Properties {
  const { template, replicas, allocationStrategy, ...rest } = spec;
  return {
    ...rest,
    templateJson: JSON.stringify(template),
    replicasDesired: replicas,
    allocationStrategy: STRATEGIES.numbers[allocationStrategy],
  };
}

function specFromMessage(message = muster.farm.v1.ReplicaSetSpec.create()): SetSpec {
  const { daemon } = message;
  return {
    podId: message.podId,
    replicas: daemon ? undefined : message.replicasDesired,
    daemon,
    nodeSelector: message.nodeSelector,
    pool: message.pool,
    allocationStrategy: STRATEGIES.nameOf(message.allocationStrategy) ?? "Dynamic",
    minReadySeconds: message.minReadySeconds ?? MIN_READY_SECONDS.fallback,
    template: objectOf(message.templateJson),
    labels: { ...message.labels },
  };
}

export function setFromMessage(message = muster.farm.v1.ReplicaSet.create()): ReplicaSet {
  const record = message.record ?? muster.farm.v1.ReplicaSetRecord.create();
  const { transfer, transfersHeld: held, deletion, trouble } = record;
  return {
    name: record.name,
    uid: record.uid,
    revision: message.revision,
    generation: record.generation,
    spec: specFromMessage(record.spec),
    desired: message.replicasDesired,
    healthy: message.healthy,
    eligibleNodes: message.eligibleNodes,
    replicas: message.replicas.map(replicaFromMessage),
    farm: message.farm,
    disabled: record.disabled,
    transfer: transfer && {
      oldNode: transfer.oldNode,
      newNode: transfer.newNode,
      because: transfer.because,
      startedAtMs: transfer.startedAtMs,
      givenUpAtMs: transfer.deadlineMs,
    },
    held: held && { by: held.by, because: held.because, atMs: held.atMs },
    transferFailures: record.transferFailures,
    transferNotBeforeAtMs: record.transferNotBeforeMs,
    roll: record.roll,
    deletion: deletion && { keepPods: deletion.keepPods, atMs: deletion.atMs },
    trouble: trouble && troubleFromMessage(trouble),
    createdAtMs: record.createdAtMs,
  };
}

function replicaFromMessage(message: muster.farm.v1.Replica): Replica {
  return {
    node: message.node,
    pod: message.pod,
    health: enums.Health.nameOf(message.health) ?? "UNKNOWN",
    reason: message.reason,
    message: message.message,
    eligible: message.eligible,
  };
}

function troubleFromMessage({ code, message, sinceMs }: muster.farm.v1.Trouble) {
  return { code, message, sinceMs };
}

export function rollFromMessage(message = muster.farm.v1.Roll.create()): Roll {
  const record = message.record ?? muster.farm.v1.RollRecord.create();
  return {
    id: record.id,
    revision: message.revision,
    oldSet: record.oldSet,
    newSet: record.newSet,
    phase: enums.RollPhase.nameOf(record.phase) ?? "UNKNOWN",
    target: record.replicasDesired,
    minimum: record.minimumReplicas,
    leaveOld: record.leaveOld,
    delayMs: record.rollDelayMs,
    oldDesired: record.oldDesired,
    newDesired: record.newDesired,
    oldCurrent: message.oldCurrent,
    newCurrent: message.newCurrent,
    oldHealthy: message.oldHealthy,
    newHealthy: message.newHealthy,
    undone: record.undone,
    waitingBecause: message.waitingBecause,
    trouble: record.trouble && troubleFromMessage(record.trouble),
    createdAtMs: record.createdAtMs,
  };
}

/** Undefined: the farm is of a version that does not explain sets. */
export function explainedSetFromMessage(message: muster.farm.v1.ExplainReplicaSetReply): ExplainedSet | undefined {
  if (message.explanation === undefined) return undefined;
  const { phase, reason } = explainedFromMessage(message.explanation);
  return {
    ...{ phase, reason },
    set: setFromMessage(message.set),
    roll: message.roll && rollFromMessage(message.roll),
    nodesKnown: message.nodesKnown,
    nodes: message.nodes.map(({ node, code, message: why }) => ({ node, code, message: why })),
    nodesMore: message.nodesMore,
  };
}

export function auditFromMessage(message: muster.farm.v1.AuditRecord): SetAudit {
  return {
    id: message.id,
    event: message.eventType,
    atMs: message.timestampMs,
    details: objectOf(message.eventDetails),
    traceparent: message.traceparent,
  };
}

/** What a farm has written as JSON; nothing where it is none. */
function objectOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
