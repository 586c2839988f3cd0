import { throwFault } from "@muster/faults";
import type { Reservation } from "@muster/ledger-client";
import { readLabelSelector } from "@muster/names";
import { enums, toLowercaseNames, muster, type MessageOf, type PropertiesOf } from "@muster/proto";
import { makeProtoCodec, type Codec } from "@muster/store";
import { describeTransferReason } from "../domain/describe-transfer.ts";
import {
  AUDIT_EVENTS,
  MIN_READY_SECONDS,
  type AuditRecord,
  type ReplicaMachine,
  type ReplicaSet,
  type ReplicaSetSpec,
  type PodTransfer,
  type TransferHold,
  type TransferReason,
  type SetTrouble,
} from "../domain/replica-set.ts";
import type { Rollout } from "../domain/rollout.ts";
import type { MachineState } from "../domain/set-snapshot.ts";
import { TROUBLES } from "../domain/troubles.ts";

const wire = muster.farm.v1;

/** The value under a key: a record, or unreadable bytes, which stay unchanged. */
export type StoredValue<Stored> = { readonly record: Stored } | { readonly unreadable: string };

const SCHEMA_VERSION = 1;

const STRATEGIES = toLowercaseNames(enums.AllocationStrategy);

export const setCodec = readable(wire.ReplicaSetRecord, toWireSet, toSet);
export const rolloutCodec = readable(wire.RollRecord, toWireRollout, toRollout);

/**
 * Decoding never throws, so that a reader finds an unreadable record under its name and does not treat it as missing. Encoding throws FaultError for a record
 * that could not be read back. A refused write keeps the earlier record; an unreadable record would replace it.
 */
function readable<Type extends typeof wire.ReplicaSetRecord | typeof wire.RollRecord, Stored>(
  type: Type,
  encode: (record: Stored) => PropertiesOf<Type>,
  decode: (message: MessageOf<Type>) => Stored,
): Codec<StoredValue<Stored>, Stored> {
  const messages = makeProtoCodec(type);
  const read = (bytes: Uint8Array): StoredValue<Stored> => {
    try {
      return { record: decode(messages.decode(bytes)) };
    } catch (error) {
      return { unreadable: error instanceof Error ? error.message : String(error) };
    }
  };
  return {
    encode: (record) => {
      const bytes = messages.encode(encode(record));
      const found = read(bytes);
      if ("record" in found) return bytes;
      const reason = `could not be read back, and is not written: ${found.unreadable}`;
      return throwFault({ code: "invalid_request", field: "the record", reason });
    },
    decode: read,
  };
}

export function toWireSet(set: ReplicaSet): muster.farm.v1.ReplicaSetRecord.$Properties {
  const { spec, machines, transfer, outbox, sharesWith, rollout, ...rest } = set;
  return {
    ...rest,
    spec: toWireSpec(spec),
    machines: machines.map(({ grant, ...each }) => ({ ...each, ...grant })),
    transfer: transfer && toWireTransfer(transfer),
    roll: rollout,
    sharesNodesWith: sharesWith,
    outbox: outbox.map(toWireAudit),
  };
}

function toSet(message: muster.farm.v1.ReplicaSetRecord): ReplicaSet {
  const { name, uid, disabled, nextOrdinal, transferFailures, transferNotBeforeMs } = message;
  const { fence, generation, createdAtMs, requestId, traceparent } = message;
  const { spec } = message;
  if (name === "" || uid === "") throw new Error("it has no name or no uid");
  if (spec === undefined) throw new Error("it has no spec");
  return {
    name,
    uid,
    spec: toSpec(name, spec),
    disabled,
    placements: message.placements.map(({ node, ordinal, templateHash, sinceMs, reservation }) => {
      if (node === "" || ordinal === 0) throw new Error("a placement has no node or no ordinal");
      return { node, ordinal, templateHash, sinceMs, reservation: reservation === "" ? undefined : reservation };
    }),
    nextOrdinal,
    machines: message.machines.map(toMachine),
    // Older records lack the field.
    nextMachine: Math.max(1, message.nextMachine),
    transfer: message.transfer && toTransfer(message.transfer),
    transfersHeld: message.transfersHeld && toHold(message.transfersHeld),
    transferFailures,
    transferNotBeforeMs,
    rollout: message.roll === "" ? undefined : message.roll,
    deletion: message.deletion && toDeletion(message.deletion),
    trouble: message.trouble && toTrouble(message.trouble),
    fence,
    generation,
    outbox: message.outbox.map(toAudit),
    createdAtMs,
    requestId,
    traceparent,
    sharesWith: [...(message.sharesWith === "" ? [] : [message.sharesWith]), ...message.sharesNodesWith],
  };
}

function toMachine({ number, pool, reservation, node, sinceMs }: muster.farm.v1.Machine): ReplicaMachine {
  if (number === 0 || pool === "") throw new Error("a machine has no number or no pool");
  if ((reservation === "") !== (node === "")) throw new Error("a machine has half a grant");
  return { number, pool, grant: node === "" ? undefined : { reservation, node }, sinceMs };
}

function toWireSpec(spec: ReplicaSetSpec): muster.farm.v1.ReplicaSetSpec.$Properties {
  const { template, allocationStrategy, daemon, replicasDesired, ...rest } = spec;
  return {
    ...rest,
    templateJson: template,
    allocationStrategy: STRATEGIES.numbers[allocationStrategy],
    daemon,
    replicasDesired: daemon ? undefined : replicasDesired,
  };
}

/**
 * The requested spec of this set. Throws FaultError invalid_request for an invalid one: above all, a missing number of replicas is never taken for 0.
 */
export function toSpec(set: string, spec: muster.farm.v1.ReplicaSetSpec): ReplicaSetSpec {
  const { podId, templateJson, nodeSelector, pool, daemon, labels } = spec;
  const desired = spec.replicasDesired ?? (daemon ? 0 : refuse("replicas_desired", "is missing: state 0 explicitly"));
  if (templateJson === "") refuse("template_json", "is missing: the JSON of a pod template is needed");
  // Every pass over related sets parses the selector, so an invalid selector would stop passes over other sets, too.
  readLabelSelector("spec.node_selector", nodeSelector);
  return {
    podId: podId === "" ? set : podId,
    template: templateJson,
    nodeSelector,
    pool: pool === "" ? undefined : pool,
    replicasDesired: daemon ? 0 : desired,
    allocationStrategy: toStrategy(spec.allocationStrategy),
    daemon,
    labels: { ...labels },
    minReadySeconds: spec.minReadySeconds ?? MIN_READY_SECONDS.fallback,
  };
}

function toStrategy(value: number): ReplicaSetSpec["allocationStrategy"] {
  const strategy = STRATEGIES.nameOf(value);
  if (strategy !== undefined) return strategy;
  return refuse("allocation_strategy", `${value} is not a strategy: static or dynamic is needed`);
}

function refuse(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field: `spec.${field}`, reason });
}

function toWireTransfer(transfer: PodTransfer): muster.farm.v1.Transfer.$Properties {
  const { because, ...rest } = transfer;
  const { ALLOCATING, STARTING } = enums.TransferPhase.numbers;
  return {
    ...rest,
    phase: transfer.newNode === undefined ? ALLOCATING : STARTING,
    because: describeTransferReason(because),
    cause: enums.TransferCause.numbers[because.code],
  };
}

function toTransfer(transfer: muster.farm.v1.Transfer): PodTransfer {
  const { id, oldNode, newNode, deadlineMs, startedAtMs, cause, because: text } = transfer;
  if (id === "" || oldNode === "") throw new Error("its transfer has no id or no old node");
  return {
    id,
    oldNode,
    newNode: newNode === "" ? undefined : newNode,
    deadlineMs,
    startedAtMs,
    because: toReason(cause, text),
  };
}

function toReason(cause: number, text: string): TransferReason {
  switch (enums.TransferCause.nameOf(cause)) {
    case "REQUESTED":
      return { code: "REQUESTED" };
    case "NODE_INELIGIBLE":
      return { code: "NODE_INELIGIBLE", detail: text };
    case undefined: {
      // Stored records may have the text without a code.
      const requested: TransferReason = { code: "REQUESTED" };
      return text === describeTransferReason(requested) ? requested : { code: "NODE_INELIGIBLE", detail: text };
    }
  }
}

function toHold({ by, because, atMs }: muster.farm.v1.TransferHold): TransferHold {
  return { by, because, atMs };
}

function toDeletion({ keepPods, atMs }: muster.farm.v1.Deletion): ReplicaSet["deletion"] {
  return { keepPods, atMs };
}

function toTrouble({ code, message, sinceMs }: muster.farm.v1.Trouble): SetTrouble {
  if (!isOneOf(TROUBLES, code)) throw new Error(`"${code}" is a trouble that this version does not know`);
  return { code, message, sinceMs };
}

export function toWireAudit({ details, ...rest }: AuditRecord): muster.farm.v1.AuditRecord.$Properties {
  return { ...rest, eventDetails: details, schemaVersion: SCHEMA_VERSION };
}

export function toAudit(record: muster.farm.v1.AuditRecord): AuditRecord {
  const { id, eventType, eventDetails, timestampMs, replicaSet, traceparent } = record;
  if (!isOneOf(AUDIT_EVENTS, eventType)) throw new Error(`"${eventType}" is an event that this version does not know`);
  return { id, eventType, details: eventDetails, timestampMs, replicaSet, traceparent };
}

export function toWireRollout(roll: Rollout): muster.farm.v1.RollRecord.$Properties {
  const { target, undoTarget, minimum, delayMs, outbox, phase, ...rest } = roll;
  return {
    ...rest,
    replicasDesired: target,
    undoReplicasDesired: undoTarget,
    minimumReplicas: minimum,
    rollDelayMs: delayMs,
    phase: enums.RollPhase.numbers[phase],
    outbox: outbox.map(toWireAudit),
  };
}

function toRollout(message: muster.farm.v1.RollRecord): Rollout {
  const { id, oldSet, newSet, leaveOld, oldDesired, newDesired, lastStepAtMs, createdAtMs, fence } = message;
  const { undone, requestId, traceparent, by, replicasDesired, minimumReplicas, rollDelayMs } = message;
  if (id === "" || oldSet === "" || newSet === "") throw new Error("it does not name both sets");
  return {
    id,
    oldSet,
    newSet,
    target: replicasDesired,
    // Older records lack the field.
    undoTarget: message.undoReplicasDesired ?? oldDesired + newDesired,
    newBefore: message.newBefore,
    minimum: minimumReplicas,
    leaveOld,
    delayMs: rollDelayMs,
    oldDesired,
    newDesired,
    phase: enums.RollPhase.requireName(message.phase, "phase"),
    lastStepAtMs,
    createdAtMs,
    fence,
    undone,
    trouble: message.trouble && toTrouble(message.trouble),
    outbox: message.outbox.map(toAudit),
    requestId,
    traceparent,
    by,
  };
}

function isOneOf<Word extends string>(known: readonly Word[], text: string): text is Word {
  return known.some((word) => word === text);
}

/** Converts a reservation to the machine state of one number of a set. */
export function toMachineState(reservation: Reservation): Exclude<MachineState, { readonly kind: "gone" }> {
  const { id, needs } = reservation;
  const pool = needs[0]?.pool ?? "";
  if (reservation.state === "granted")
    return { kind: "granted", reservation: id, pool, node: reservation.machines[0]?.node ?? "" };
  const { because, queue } = reservation;
  return { kind: "waiting", reservation: id, pool, ...(queue && { queue }), because: because?.code || "WAITING" };
}
