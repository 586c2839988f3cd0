import { toCapitalizedNames, enums, muster } from "@muster/proto";
import { MIN_READY_SECONDS, type SetSpec } from "../domain/set-document.ts";
import { toExplainedReservation } from "./explanation-messages.ts";
import { nameOf, pickFields } from "./message-fields.ts";

export type ReplicaSet = ReturnType<typeof toReplicaSet>;
export type Replica = ReplicaSet["replicas"][number];
/** A set whose record the farms cannot read. */
export type UnreadableSet = Pick<muster.farm.v1.UnreadableSet, "name" | "because">;
/** A rolling update as its farm reports it. */
export type RolloutRecord = ReturnType<typeof toRollout>;
/** A set as its farm explains it, with the state of each node for the set. */
export type ExplainedSet = NonNullable<ReturnType<typeof toExplainedSet>>;
export type SetAudit = ReturnType<typeof toSetAudit>;

const STRATEGIES = toCapitalizedNames(enums.AllocationStrategy);

export function toWireSetSpec(spec: SetSpec): muster.farm.v1.ReplicaSetSpec.$Properties {
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
    ...pickFields(message, "nodeSelector", "pool"),
    allocationStrategy: STRATEGIES.nameOf(message.allocationStrategy) ?? "Dynamic",
    minReadySeconds: message.minReadySeconds ?? MIN_READY_SECONDS.fallback,
    template: objectOf(message.templateJson),
    labels: { ...message.labels },
  };
}

export function toReplicaSet(message = muster.farm.v1.ReplicaSet.create()) {
  const record = message.record ?? muster.farm.v1.ReplicaSetRecord.create();
  const { transfer, transfersHeld: held, deletion, trouble } = record;
  return {
    ...pickFields(record, "name", "uid"),
    revision: message.revision,
    generation: record.generation,
    spec: specFromMessage(record.spec),
    /** The desired number of the set, or of its rolling update. */
    desired: message.replicasDesired,
    ...pickFields(message, "healthy", "eligibleNodes"),
    replicas: message.replicas.map(replicaFromMessage),
    farm: message.farm,
    disabled: record.disabled,
    transfer: transfer && {
      ...pickFields(transfer, "oldNode", "newNode", "because", "startedAtMs"),
      givenUpAtMs: transfer.deadlineMs,
    },
    held: held && pickFields(held, "by", "because", "atMs"),
    transferFailures: record.transferFailures,
    transferNotBeforeAtMs: record.transferNotBeforeMs === 0 ? undefined : record.transferNotBeforeMs,
    roll: record.roll,
    deletion: deletion && pickFields(deletion, "keepPods", "atMs"),
    trouble: trouble && pickFields(trouble, ...TROUBLE),
    createdAtMs: record.createdAtMs,
  };
}

function replicaFromMessage(message: muster.farm.v1.Replica) {
  return {
    ...pickFields(message, "node", "pod"),
    health: nameOf(enums.Health, message.health),
    ...pickFields(message, "reason", "message", "eligible"),
  };
}

const TROUBLE = ["code", "message", "sinceMs"] as const;

export function toRollout(message = muster.farm.v1.Roll.create()) {
  const record = message.record ?? muster.farm.v1.RollRecord.create();
  return {
    id: record.id,
    revision: message.revision,
    ...pickFields(record, "oldSet", "newSet"),
    phase: nameOf(enums.RollPhase, record.phase),
    target: record.replicasDesired,
    minimum: record.minimumReplicas,
    leaveOld: record.leaveOld,
    delayMs: record.rollDelayMs,
    ...pickFields(record, "oldDesired", "newDesired"),
    ...pickFields(message, "oldCurrent", "newCurrent", "oldHealthy", "newHealthy"),
    undone: record.undone,
    waitingBecause: message.waitingBecause,
    trouble: record.trouble && pickFields(record.trouble, ...TROUBLE),
    createdAtMs: record.createdAtMs,
  };
}

/** Returns undefined if the farm has a version that does not explain sets. */
export function toExplainedSet(message: muster.farm.v1.ExplainReplicaSetReply) {
  if (message.explanation === undefined) return undefined;
  const { phase, reason } = toExplainedReservation(message.explanation);
  return {
    ...{ phase, reason },
    set: toReplicaSet(message.set),
    roll: message.roll && toRollout(message.roll),
    nodesKnown: message.nodesKnown,
    nodes: message.nodes.map((node) => pickFields(node, "node", "code", "message")),
    nodesMore: message.nodesMore,
  };
}

export function toSetAudit(message: muster.farm.v1.AuditRecord) {
  return {
    id: message.id,
    event: message.eventType,
    atMs: message.timestampMs,
    details: objectOf(message.eventDetails),
    traceparent: message.traceparent,
  };
}

/** The JSON object that a farm wrote; empty where the text is no object. */
function objectOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
