import { throwFault } from "@muster/faults";
import { muster, type PropertiesOf } from "@muster/proto";
import { protoCodec, type Codec } from "@muster/store";
import { OWNER_KIND } from "../domain/build-pod.ts";
import { readSelector } from "../domain/eligible-nodes.ts";
import { readMachineOwner } from "../domain/plan-machines.ts";
import {
  MIN_READY_SECONDS,
  type AuditEvent,
  type AuditRecord,
  type Machine,
  type ReplicaSet,
  type ReplicaSetSpec,
  type Transfer,
  type TransferHold,
  type Trouble,
  type TroubleCode,
} from "../domain/replica-set.ts";
import type { Roll, RollPhase } from "../domain/roll.ts";
import type { MachineSight } from "../domain/set-snapshot.ts";

const wire = muster.farm.v1;
export type WireSpec = PropertiesOf<typeof wire.ReplicaSetSpec>;
type WireSet = PropertiesOf<typeof wire.ReplicaSetRecord>;
type WireRoll = PropertiesOf<typeof wire.RollRecord>;
type WireAudit = PropertiesOf<typeof wire.AuditRecord>;

/** What stands under a key: a record, or bytes that are none, which are left as they are. */
export type Readable<Stored> = { readonly record: Stored } | { readonly unreadable: string };

/** A message inside another that was decoded has all its fields of one value, though the type says that any may be missing. */
type Decoded<Properties> = {
  readonly [Name in Exclude<keyof Properties, "$unknowns">]-?: NonNullable<Properties[Name]>;
};

const SCHEMA_VERSION = 1;

const STRATEGIES = {
  static: wire.AllocationStrategy.ALLOCATION_STRATEGY_STATIC,
  dynamic: wire.AllocationStrategy.ALLOCATION_STRATEGY_DYNAMIC,
} as const;

const ROLL_PHASES = {
  CREATING: wire.RollPhase.ROLL_PHASE_CREATING,
  RUNNING: wire.RollPhase.ROLL_PHASE_RUNNING,
  PAUSED: wire.RollPhase.ROLL_PHASE_PAUSED,
  FINISHING: wire.RollPhase.ROLL_PHASE_FINISHING,
} as const satisfies Record<RollPhase, number>;

const STRATEGY_OF = new Map<number, ReplicaSetSpec["allocationStrategy"]>([
  [STRATEGIES.static, "static"],
  [STRATEGIES.dynamic, "dynamic"],
]);

const ROLL_PHASE_OF = new Map<number, RollPhase>([
  [ROLL_PHASES.CREATING, "CREATING"],
  [ROLL_PHASES.RUNNING, "RUNNING"],
  [ROLL_PHASES.PAUSED, "PAUSED"],
  [ROLL_PHASES.FINISHING, "FINISHING"],
]);

/** All of them; each stands in the documents, too. */
export const TROUBLES: Readonly<Record<TroubleCode, true>> = {
  TOO_FEW_NODES: true,
  NO_ELIGIBLE_NODES: true,
  NOT_HEALTHY: true,
  OVERLAP: true,
  POD_REFUSED: true,
  TRANSFER_FAILED: true,
  ROLL_SET_MISSING: true,
  ROLL_STUCK: true,
  WAITING_FOR_MACHINE: true,
  MACHINE_REFUSED: true,
  MACHINES_GONE: true,
  LEDGER_AWAY: true,
};

const EVENTS: Readonly<Record<AuditEvent, true>> = {
  CREATED: true,
  CHANGED: true,
  SCALED: true,
  ENABLED: true,
  DISABLED: true,
  TRANSFERS_HELD: true,
  TRANSFERS_RELEASED: true,
  DELETED: true,
  REPLICATION_CONTROLLER_RETARGET: true,
  NODE_TRANSFER_START: true,
  NODE_TRANSFER_COMPLETION: true,
  NODE_TRANSFER_ROLLBACK: true,
  ROLLING_UPDATE_CREATION: true,
  ROLLING_UPDATE_PAUSE: true,
  ROLLING_UPDATE_RESUME: true,
  ROLLING_UPDATE_UNDO: true,
  ROLLING_UPDATE_REDO: true,
  ROLLING_UPDATE_COMPLETION: true,
};

export const setCodec = readable(wire.ReplicaSetRecord, toWireSet, toSet);
export const rollCodec = readable(wire.RollRecord, toWireRoll, toRoll);

/**
 * Decoding never throws, so that a reader meets a record that is none under its name, and does not take it for one that is not there. Encoding throws FaultError for what nobody could read back: a
 * write that is refused leaves the earlier record, and an unreadable one would be lost.
 */
function readable<Type extends typeof wire.ReplicaSetRecord | typeof wire.RollRecord, Stored>(
  type: Type,
  encode: (record: Stored) => PropertiesOf<Type>,
  decode: (message: InstanceType<Type>) => Stored,
): Codec<Readable<Stored>, Stored> {
  const messages = protoCodec(type);
  const read = (bytes: Uint8Array): Readable<Stored> => {
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

export function toWireSet(set: ReplicaSet): WireSet {
  const { spec, placements, machines, transfer, deletion, trouble, roll, outbox, transfersHeld, sharesWith, ...rest } =
    set;
  return {
    ...rest,
    spec: toWireSpec(spec),
    placements: placements.map((each) => ({ ...each, reservation: each.reservation ?? "" })),
    machines: machines.map(({ grant, ...each }) => ({ ...each, ...(grant ?? { reservation: "", node: "" }) })),
    transfer: transfer === undefined ? null : toWireTransfer(transfer),
    transfersHeld: transfersHeld ?? null,
    deletion: deletion ?? null,
    trouble: trouble ?? null,
    roll: roll ?? "",
    sharesNodesWith: [...sharesWith],
    outbox: outbox.map(toWireAudit),
  };
}

function toSet(message: muster.farm.v1.ReplicaSetRecord): ReplicaSet {
  const { name, uid, disabled, nextOrdinal, transferFailures, transferNotBeforeMs } = message;
  const { fence, generation, createdAtMs, requestId, traceparent } = message;
  const { spec } = message;
  if (name === "" || uid === "") throw new Error("it has no name or no uid");
  if (spec === null || spec === undefined) throw new Error("it has no spec");
  return {
    name,
    uid,
    spec: toSpec(name, spec),
    disabled,
    placements: message.placements.map((placement) => {
      const { node, ordinal, templateHash, sinceMs, reservation } = decoded(placement);
      if (node === "" || ordinal === 0) throw new Error("a placement has no node or no ordinal");
      return { node, ordinal, templateHash, sinceMs, reservation: reservation === "" ? undefined : reservation };
    }),
    nextOrdinal,
    machines: message.machines.map((machine) => toMachine(decoded(machine))),
    // Of a record from before there were machines.
    nextMachine: Math.max(1, message.nextMachine),
    transfer: unlessMissing(message.transfer, toTransfer),
    transfersHeld: unlessMissing(message.transfersHeld, toHold),
    transferFailures,
    transferNotBeforeMs,
    roll: message.roll === "" ? undefined : message.roll,
    deletion: unlessMissing(message.deletion, toDeletion),
    trouble: unlessMissing(message.trouble, toTrouble),
    fence,
    generation,
    outbox: message.outbox.map((each) => toAudit(decoded(each))),
    createdAtMs,
    requestId,
    traceparent,
    sharesWith: [...(message.sharesWith === "" ? [] : [message.sharesWith]), ...message.sharesNodesWith],
  };
}

function toMachine(machine: Decoded<PropertiesOf<typeof wire.Machine>>): Machine {
  const { number, pool, reservation, node, sinceMs } = machine;
  if (number === 0 || pool === "") throw new Error("a machine has no number or no pool");
  if ((reservation === "") !== (node === "")) throw new Error("a machine has half a grant");
  return { number, pool, grant: node === "" ? undefined : { reservation, node }, sinceMs };
}

function toWireSpec({ podId, template, pool, allocationStrategy, daemon, replicasDesired, ...rest }: ReplicaSetSpec) {
  return {
    ...rest,
    podId,
    templateJson: template,
    pool: pool ?? "",
    allocationStrategy: STRATEGIES[allocationStrategy],
    daemon,
    ...(!daemon && { replicasDesired }),
  };
}

/**
 * What somebody wants of the set of this name. Throws FaultError invalid_request for what cannot be understood: above all a number of replicas that is not there, which must never be
 * taken for none.
 */
export function toSpec(set: string, spec: WireSpec): ReplicaSetSpec {
  const daemon = spec.daemon ?? false;
  const templateJson = spec.templateJson ?? "";
  const desired = spec.replicasDesired ?? (daemon ? 0 : refuse("replicas_desired", "is missing: 0 has to be said"));
  if (templateJson === "") refuse("template_json", "is missing: the JSON of a pod template is needed");
  const nodeSelector = spec.nodeSelector ?? "";
  // Everybody who looks at the set reads it: one that is none would stop the look at others, too.
  readSelector("spec.node_selector", nodeSelector);
  return {
    podId: textOr(spec.podId, set),
    template: templateJson,
    nodeSelector,
    pool: textOr(spec.pool, undefined),
    replicasDesired: daemon ? 0 : desired,
    allocationStrategy: toStrategy(spec.allocationStrategy ?? 0),
    daemon,
    labels: { ...spec.labels },
    minReadySeconds: spec.minReadySeconds ?? MIN_READY_SECONDS.fallback,
  };
}

function toStrategy(value: number): ReplicaSetSpec["allocationStrategy"] {
  const strategy = STRATEGY_OF.get(value);
  if (strategy !== undefined) return strategy;
  return refuse("allocation_strategy", `${value} is none: static or dynamic is needed`);
}

function refuse(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field: `spec.${field}`, reason });
}

function toWireTransfer({ newNode, ...rest }: Transfer) {
  const { TRANSFER_PHASE_ALLOCATING, TRANSFER_PHASE_STARTING } = wire.TransferPhase;
  return {
    ...rest,
    newNode: newNode ?? "",
    phase: newNode === undefined ? TRANSFER_PHASE_ALLOCATING : TRANSFER_PHASE_STARTING,
  };
}

function toTransfer(message: Decoded<PropertiesOf<typeof wire.Transfer>>): Transfer {
  const { id, oldNode, newNode, deadlineMs, startedAtMs, because } = message;
  if (id === "" || oldNode === "") throw new Error("its transfer has no id or no old node");
  return { id, oldNode, newNode: newNode === "" ? undefined : newNode, deadlineMs, startedAtMs, because };
}

function toHold({ by, because, atMs }: Decoded<PropertiesOf<typeof wire.TransferHold>>): TransferHold {
  return { by, because, atMs };
}

function toDeletion({ keepPods, atMs }: Decoded<PropertiesOf<typeof wire.Deletion>>): ReplicaSet["deletion"] {
  return { keepPods, atMs };
}

function toTrouble({ code, message, sinceMs }: Decoded<PropertiesOf<typeof wire.Trouble>>): Trouble {
  if (!isKeyOf(TROUBLES, code)) throw new Error(`"${code}" is no trouble that this version knows`);
  return { code, message, sinceMs };
}

export function toWireAudit({ details, ...rest }: AuditRecord): WireAudit {
  return { ...rest, eventDetails: details, schemaVersion: SCHEMA_VERSION };
}

export function toAudit(message: Decoded<WireAudit>): AuditRecord {
  const { id, eventType, eventDetails, timestampMs, replicaSet, traceparent } = message;
  if (!isKeyOf(EVENTS, eventType)) throw new Error(`"${eventType}" is no event that this version knows`);
  return { id, eventType, details: eventDetails, timestampMs, replicaSet, traceparent };
}

export function toWireRoll({ target, undoTarget, minimum, delayMs, trouble, outbox, phase, ...rest }: Roll): WireRoll {
  return {
    ...rest,
    replicasDesired: target,
    undoReplicasDesired: undoTarget,
    minimumReplicas: minimum,
    rollDelayMs: delayMs,
    phase: ROLL_PHASES[phase],
    trouble: trouble ?? null,
    outbox: outbox.map(toWireAudit),
  };
}

function toRoll(message: muster.farm.v1.RollRecord): Roll {
  const { id, oldSet, newSet, leaveOld, oldDesired, newDesired, lastStepAtMs, createdAtMs, fence } = message;
  const { undone, requestId, traceparent, by, replicasDesired, minimumReplicas, rollDelayMs } = message;
  if (id === "" || oldSet === "" || newSet === "") throw new Error("it does not name both sets");
  return {
    id,
    oldSet,
    newSet,
    target: replicasDesired,
    // Of a record from before it was kept.
    undoTarget: message.undoReplicasDesired ?? oldDesired + newDesired,
    newBefore: message.newBefore,
    minimum: minimumReplicas,
    leaveOld,
    delayMs: rollDelayMs,
    oldDesired,
    newDesired,
    phase: toRollPhase(message.phase),
    lastStepAtMs,
    createdAtMs,
    fence,
    undone,
    trouble: unlessMissing(message.trouble, toTrouble),
    outbox: message.outbox.map((each) => toAudit(decoded(each))),
    requestId,
    traceparent,
    by,
  };
}

function toRollPhase(value: number): RollPhase {
  const phase = ROLL_PHASE_OF.get(value);
  if (phase !== undefined) return phase;
  throw new Error(`${value} is no phase that this version knows`);
}

function isKeyOf<Key extends string>(known: Readonly<Record<Key, unknown>>, text: string): text is Key {
  return Object.hasOwn(known, text);
}

function textOr<Fallback>(text: string | null | undefined, fallback: Fallback): string | Fallback {
  return text === undefined || text === null || text === "" ? fallback : text;
}

function decoded<Properties extends object>(message: Properties): Decoded<Properties> {
  return message as Decoded<Properties>;
}

function unlessMissing<Properties extends object, Value>(
  message: Properties | null | undefined,
  read: (message: Decoded<Properties>) => Value,
): Value | undefined {
  return message === null || message === undefined ? undefined : read(decoded(message));
}

/** What the ledger tells of one machine of a set. */
export type ToldReservation = {
  readonly set: string;
  readonly number: number;
  readonly sight: Exclude<MachineSight, { readonly is: "gone" }>;
};

/** Undefined: it is no machine of a set. */
export function toToldReservation(
  message: muster.reservation.v1.Reservation.$Properties | null | undefined,
): ToldReservation | undefined {
  const { owner, needs, machines, state, because } = message ?? {};
  const of = owner?.kind === OWNER_KIND ? readMachineOwner(owner.id ?? "") : undefined;
  const reservation = message?.id ?? "";
  if (of === undefined || reservation === "") return undefined;
  const pool = needs?.[0]?.pool ?? "";
  if (state === muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED)
    return { ...of, sight: { is: "granted", reservation, pool, node: machines?.[0]?.node ?? "" } };
  return { ...of, sight: { is: "waiting", reservation, pool, because: textOr(because?.code, "WAITING") } };
}
