import { capitalizeNames, enums, muster } from "@muster/proto";
import type { ExplainedSet, Replica, ReplicaSet, Roll, SetAudit } from "../domain/replica-set.ts";
import { MIN_READY_SECONDS, type SetSpec } from "../domain/set-document.ts";
import { explainedFromMessage } from "./explanation-messages.ts";
import { pick } from "./message-fields.ts";

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
    ...pick(message, "nodeSelector", "pool"),
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
    ...pick(record, "name", "uid"),
    revision: message.revision,
    generation: record.generation,
    spec: specFromMessage(record.spec),
    desired: message.replicasDesired,
    ...pick(message, "healthy", "eligibleNodes"),
    replicas: message.replicas.map(replicaFromMessage),
    farm: message.farm,
    disabled: record.disabled,
    transfer: transfer && {
      ...pick(transfer, "oldNode", "newNode", "because", "startedAtMs"),
      givenUpAtMs: transfer.deadlineMs,
    },
    held: held && pick(held, "by", "because", "atMs"),
    transferFailures: record.transferFailures,
    transferNotBeforeAtMs: record.transferNotBeforeMs === 0 ? undefined : record.transferNotBeforeMs,
    roll: record.roll,
    deletion: deletion && pick(deletion, "keepPods", "atMs"),
    trouble: trouble && pick(trouble, ...TROUBLE),
    createdAtMs: record.createdAtMs,
  };
}

function replicaFromMessage(message: muster.farm.v1.Replica): Replica {
  return {
    ...pick(message, "node", "pod"),
    health: enums.Health.nameOf(message.health) ?? "UNKNOWN",
    ...pick(message, "reason", "message", "eligible"),
  };
}

const TROUBLE = ["code", "message", "sinceMs"] as const;

export function rollFromMessage(message = muster.farm.v1.Roll.create()): Roll {
  const record = message.record ?? muster.farm.v1.RollRecord.create();
  return {
    id: record.id,
    revision: message.revision,
    ...pick(record, "oldSet", "newSet"),
    phase: enums.RollPhase.nameOf(record.phase) ?? "UNKNOWN",
    target: record.replicasDesired,
    minimum: record.minimumReplicas,
    leaveOld: record.leaveOld,
    delayMs: record.rollDelayMs,
    ...pick(record, "oldDesired", "newDesired"),
    ...pick(message, "oldCurrent", "newCurrent", "oldHealthy", "newHealthy"),
    undone: record.undone,
    waitingBecause: message.waitingBecause,
    trouble: record.trouble && pick(record.trouble, ...TROUBLE),
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
    nodes: message.nodes.map((node) => pick(node, "node", "code", "message")),
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
