import { isRetryable, type Fault } from "@muster/faults";
import type { Reservation, WaitReason as LedgerReason } from "@muster/ledger-client";
import { enums, toLowercaseNames, muster } from "@muster/proto";
import { buildDigest, type OwnedReplacement, type OwnedReservation } from "../domain/plan-sweep.ts";
import { getReplacementSession } from "../domain/replacement-owner.ts";
import {
  COMPONENT_STATES,
  END_REASONS,
  TERMINAL_KINDS,
  WARNING_CODES,
  getGivenName,
  type ComponentStatus,
  type SessionEvent,
  type SessionRecord,
  type SessionSpec,
  type SessionVerdict,
} from "../domain/session.ts";
import { WAIT_CODES, type LedgerRefusal, type ReservationSeen, type WaitReason } from "../domain/snapshot.ts";
import type { PodSeen } from "../domain/summarise-components.ts";
import type { SessionDraft } from "../domain/validate-session.ts";

const { Session, SessionRecord: RecordMessage, SessionSpec: SpecMessage } = muster.session.v1;

const KINDS = toLowercaseNames(enums.ComponentKind);

/** The spec of a request; a missing or unknown kind becomes undefined. */
export function toSessionDraft(spec = SpecMessage.create()): SessionDraft {
  const components = spec.components.map((component) => ({
    ...programOf(component),
    kind: KINDS.nameOf(component.kind),
  }));
  return { ...limitsOf(spec), components };
}

/** Decodes a stored record. Throws for a record that `toWireRecord` did not encode. */
function recordOf(message: muster.session.v1.SessionRecord): SessionRecord {
  const session = message.session ?? Session.create();
  const elsewhere = { namespace: session.namespace, name: message.nameInNamespace };
  return {
    name: session.name,
    ...(elsewhere.name !== "" && { elsewhere }),
    uid: session.uid,
    requestId: message.requestId,
    spec: specOf(session.spec),
    events: session.events.map(eventOfWire),
    components: session.components.map(statusOf),
    resultJson: session.resultJson,
    warnings: session.warnings.map(({ code, message: text }) => ({
      code: wordOf(WARNING_CODES, code) ?? "OTHER",
      message: text,
    })),
    createdAtMs: session.createdAtMs,
    finishedAtMs: session.finishedAtMs,
    cancelRequested: session.cancelRequested,
    traceparent: session.traceparent,
    waitingBecause: session.waitingBecause,
    epoch: message.epoch,
    executor: message.executor,
    attempts: message.attempts,
    verdict: message.verdict && verdictOf(message.verdict),
    logsCollected: message.logsCollected,
    logsRead: message.logsRead,
    podsDeleted: message.podsDeleted,
    released: message.released,
    reservationId: message.reservationId,
  };
}

export function toWireRecord(record: SessionRecord): muster.session.v1.SessionRecord.$Properties {
  const { epoch, executor, attempts, requestId, logsCollected, logsRead, podsDeleted, released, reservationId } =
    record;
  return {
    session: { ...toWireSession(record, 0), name: record.name },
    nameInNamespace: record.elsewhere?.name ?? "",
    epoch,
    executor,
    attempts,
    requestId,
    verdict: record.verdict && toWireEvent(record.verdict),
    logsCollected,
    logsRead,
    podsDeleted,
    released,
    reservationId,
  };
}

/** Converts the record to the session that users see. The record contains neither `revision` nor the ledger's wait reason. */
export function toWireSession(
  record: SessionRecord,
  revision: number,
  waitingCode = "",
): muster.session.v1.Session.$Properties {
  const { uid, resultJson, createdAtMs, finishedAtMs, cancelRequested, traceparent, waitingBecause } = record;
  return {
    name: getGivenName(record),
    namespace: record.elsewhere?.namespace ?? "",
    uid,
    revision,
    spec: specMessage(record.spec),
    events: record.events.map(toWireEvent),
    components: record.components.map((status) => ({ ...status, kind: KINDS.numbers[status.kind] })),
    resultJson,
    warnings: record.warnings,
    createdAtMs,
    finishedAtMs,
    cancelRequested,
    traceparent,
    waitingBecause,
    waitingCode,
  };
}

export function toWireEvent(event: SessionEvent): muster.session.v1.SessionEvent.$Properties {
  return { ...event, kind: enums.SessionEventKind.numbers[event.kind] };
}

export const recordCodec = {
  encode: (record: SessionRecord) => RecordMessage.encode(toWireRecord(record)).finish(),
  decode: (bytes: Uint8Array) => recordOf(RecordMessage.decode(bytes)),
};

/** The part of a record that stays in memory; read-only. */
export const digestCodec = {
  encode: (): Uint8Array => {
    throw new Error("a digest is never stored");
  },
  decode: (bytes: Uint8Array) => ({ ...buildDigest(recordCodec.decode(bytes)), storedBytes: bytes.length }),
};

export function toPodSeen(state: muster.watch.v1.PodState): PodSeen {
  return {
    pod: state.pod,
    uid: state.uid,
    resourceVersion: state.resourceVersion,
    podIp: state.podIp,
    node: state.node,
    health: enums.Health.nameOf(state.health) ?? "UNKNOWN",
    reason: state.reason,
    message: state.message,
    deleted: state.deleted,
    exitCode: state.exitCode,
  };
}

export function toReservationSeen(reservation: Reservation): ReservationSeen {
  const { state, id } = reservation;
  if (state === "waiting") return { state, id, because: toWaitReason(reservation.because) };
  return { state, id, machines: reservation.machines.map(({ component, pool, node }) => ({ component, pool, node })) };
}

export function toOwnedReservation({ id, ownerId, createdAtMs, state }: Reservation): OwnedReservation {
  return { kind: "reservation", uid: id, session: ownerId, createdAtMs, granted: state === "granted" };
}

export function toOwnedReplacement({ id, ownerId, createdAtMs }: Reservation): OwnedReplacement {
  return { kind: "replacement", uid: id, ownerId, session: getReplacementSession(ownerId), createdAtMs };
}

/** Faults of Reserve that a retry cannot fix. */
export function isRefusal(fault: Fault): fault is LedgerRefusal {
  if (fault.code === "limit_exceeded") return !isRetryable(fault);
  return ["pool_unknown", "pool_capacity", "reservation_differs", "invalid_request"].includes(fault.code);
}

function specOf(spec = SpecMessage.create()): SessionSpec {
  const components = spec.components.map((component) => ({ ...programOf(component), kind: kindOf(component) }));
  return { ...limitsOf(spec), components };
}

function limitsOf(spec: muster.session.v1.SessionSpec): Omit<SessionSpec, "components"> {
  const { scenarioJson, timeoutMs, queueTimeoutMs, ttlMs, priority, workerPort, killAfterMs, queue, topology } = spec;
  return { scenarioJson, timeoutMs, queueTimeoutMs, ttlMs, priority, workerPort, killAfterMs, queue, topology };
}

function programOf(component: muster.session.v1.Component) {
  const { name, pool, otherPools, image, command, args, workingDir, readyPort, templateJson, shared } = component;
  const env = component.env.map(({ name: variable, value }) => ({ name: variable, value }));
  return { name, pool, otherPools, image, command, args, env, workingDir, readyPort, templateJson, shared };
}

function specMessage(spec: SessionSpec): muster.session.v1.SessionSpec.$Properties {
  const components = spec.components.map((component) => ({ ...component, kind: KINDS.numbers[component.kind] }));
  return { ...spec, components };
}

function kindOf({ kind }: { readonly kind: muster.session.v1.ComponentKind }): ComponentStatus["kind"] {
  return KINDS.requireName(kind, "kind of a component");
}

function eventOfWire({ kind, atMs, description, reason }: muster.session.v1.SessionEvent): SessionEvent {
  return {
    kind: enums.SessionEventKind.requireName(kind, "kind of an event"),
    atMs,
    description,
    reason: reason === "" ? "" : (wordOf(END_REASONS, reason) ?? "OTHER"),
  };
}

function verdictOf(event: muster.session.v1.SessionEvent): SessionVerdict {
  const read = eventOfWire(event);
  const kind = wordOf(TERMINAL_KINDS, read.kind);
  if (kind === undefined) throw new Error(`a stored verdict has the kind ${read.kind}`);
  return { ...read, kind };
}

function statusOf(status: muster.session.v1.ComponentStatus): ComponentStatus {
  const { name, pool, node, pod, podUid, podIp, message, exitCode, lostAtMs, lostNode } = status;
  const state = wordOf(COMPONENT_STATES, status.state) ?? "UNKNOWN";
  return { name, kind: kindOf(status), pool, node, pod, podUid, podIp, state, message, exitCode, lostAtMs, lostNode };
}

export function toWaitReason(because: LedgerReason | undefined): WaitReason | undefined {
  return because && { ...because, code: wordOf(WAIT_CODES, because.code) ?? "OTHER" };
}

/** Maps a word that another service wrote; an unknown word becomes undefined. */
function wordOf<Word extends string>(words: readonly Word[], text: string): Word | undefined {
  return words.find((word) => word === text);
}
