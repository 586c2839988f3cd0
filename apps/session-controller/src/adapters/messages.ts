import type { Fault } from "@muster/faults";
import { muster } from "@muster/proto";
import type { FoundReservation } from "../domain/decide-release.ts";
import { digestOf, type OwnedReplacement, type OwnedReservation } from "../domain/plan-sweep.ts";
import { REPLACEMENT_KIND, sessionOfReplacement } from "../domain/replacement-owner.ts";
import {
  COMPONENT_STATES,
  END_REASONS,
  TERMINAL_KINDS,
  WARNING_CODES,
  type ComponentKind,
  type ComponentStatus,
  type EventKind,
  type PodHealth,
  type SessionEvent,
  type SessionRecord,
  type SessionSpec,
  type Verdict,
} from "../domain/session.ts";
import { WAIT_CODES, type Refusal, type ReservationSeen, type WaitReason } from "../domain/snapshot.ts";
import type { PodSeen } from "../domain/summarise-components.ts";
import type { SessionDraft } from "../domain/validate-session.ts";

const { ComponentKind: WireKind, SessionEventKind: WireEvent, SessionRecord: RecordMessage } = muster.session.v1;

type SpecProperties = muster.session.v1.SessionSpec.$Properties;
type ComponentProperties = muster.session.v1.Component.$Properties;
type SessionProperties = muster.session.v1.Session.$Properties;
type EventProperties = muster.session.v1.SessionEvent.$Properties;

const KINDS: Readonly<Record<ComponentKind, muster.session.v1.ComponentKind>> = {
  driver: WireKind.COMPONENT_KIND_DRIVER,
  server: WireKind.COMPONENT_KIND_SERVER,
  client: WireKind.COMPONENT_KIND_CLIENT,
};

const EVENTS: Readonly<Record<EventKind, muster.session.v1.SessionEventKind>> = {
  QUEUE: WireEvent.SESSION_EVENT_KIND_QUEUE,
  ACCEPT: WireEvent.SESSION_EVENT_KIND_ACCEPT,
  PROVISION: WireEvent.SESSION_EVENT_KIND_PROVISION,
  RUN: WireEvent.SESSION_EVENT_KIND_RUN,
  DONE: WireEvent.SESSION_EVENT_KIND_DONE,
  ERROR: WireEvent.SESSION_EVENT_KIND_ERROR,
  CANCELLED: WireEvent.SESSION_EVENT_KIND_CANCELLED,
  INTERNAL_ERROR: WireEvent.SESSION_EVENT_KIND_INTERNAL_ERROR,
};

/** A request's spec; a kind that is missing or not known to us is none. */
export function draftOf(spec: SpecProperties | null | undefined): SessionDraft {
  return {
    components: (spec?.components ?? []).map((component) => ({
      ...programOf(component),
      kind: kindOf(component.kind),
    })),
    scenarioJson: spec?.scenarioJson ?? "",
    timeoutMs: spec?.timeoutMs ?? 0,
    queueTimeoutMs: spec?.queueTimeoutMs ?? 0,
    ttlMs: spec?.ttlMs ?? 0,
    priority: spec?.priority ?? 0,
    workerPort: spec?.workerPort ?? 0,
    killAfterMs: spec?.killAfterMs ?? 0,
  };
}

/** A stored record. Throws when it is not one that `recordMessage` has made. */
export function recordOf(message: muster.session.v1.SessionRecord.$Properties): SessionRecord {
  const session = message.session ?? {};
  const draft = draftOf(session.spec);
  const spec: SessionSpec = {
    ...draft,
    components: draft.components.map((component) => ({ ...component, kind: knownKind(component.kind) })),
  };
  return {
    name: session.name ?? "",
    uid: session.uid ?? "",
    requestId: message.requestId ?? "",
    spec,
    events: (session.events ?? []).map(eventOfWire),
    components: (session.components ?? []).map((status) => statusOf(session.name ?? "", status)),
    resultJson: session.resultJson ?? "",
    warnings: (session.warnings ?? []).map(({ code, message: text }) => ({
      code: wordOf(WARNING_CODES, code) ?? "OTHER",
      message: text ?? "",
    })),
    createdAtMs: session.createdAtMs ?? 0,
    finishedAtMs: session.finishedAtMs ?? 0,
    cancelRequested: session.cancelRequested ?? false,
    traceparent: session.traceparent ?? "",
    waitingBecause: session.waitingBecause ?? "",
    epoch: message.epoch ?? 0,
    executor: message.executor ?? "",
    attempts: message.attempts ?? 0,
    verdict: verdictOf(message.verdict),
    logsCollected: message.logsCollected ?? false,
    logsRead: message.logsRead ?? [],
    podsDeleted: message.podsDeleted ?? false,
    released: message.released ?? false,
    reservationId: message.reservationId ?? "",
  };
}

export function recordMessage(record: SessionRecord): muster.session.v1.SessionRecord.$Properties {
  const { epoch, executor, attempts, requestId, logsCollected, logsRead, podsDeleted, released, reservationId } =
    record;
  return {
    session: sessionMessage(record, 0),
    epoch,
    executor,
    attempts,
    requestId,
    ...(record.verdict === undefined ? {} : { verdict: eventMessage(record.verdict) }),
    logsCollected,
    logsRead: [...logsRead],
    podsDeleted,
    released,
    reservationId,
  };
}

/** What users see of a record. The revision is the one under which the record is stored; a stored record cannot know it, nor the ledger's word for its wait. */
export function sessionMessage(record: SessionRecord, revision: number, waitingCode = ""): SessionProperties {
  const { name, uid, resultJson, createdAtMs, finishedAtMs, cancelRequested, traceparent, waitingBecause } = record;
  return {
    name,
    uid,
    revision,
    spec: specMessage(record.spec),
    events: record.events.map(eventMessage),
    components: record.components.map(statusMessage),
    resultJson,
    warnings: record.warnings.map(({ code, message }) => ({ code, message })),
    createdAtMs,
    finishedAtMs,
    cancelRequested,
    traceparent,
    waitingBecause,
    waitingCode,
  };
}

export function eventMessage(event: SessionEvent): EventProperties {
  return { kind: EVENTS[event.kind], atMs: event.atMs, description: event.description, reason: event.reason };
}

/** Bytes that a session takes in a reply. */
export function sessionBytes(session: SessionProperties): number {
  return muster.session.v1.Session.encode(session).finish().length;
}

export const recordCodec = {
  encode: (record: SessionRecord) => RecordMessage.encode(recordMessage(record)).finish(),
  decode: (bytes: Uint8Array) => recordOf(RecordMessage.decode(bytes)),
};

/** The part of a record that is worth holding in memory; only read. */
export const digestCodec = {
  encode: (): Uint8Array => {
    throw new Error("a digest is never stored");
  },
  decode: (bytes: Uint8Array) => ({ ...digestOf(recordCodec.decode(bytes)), storedBytes: bytes.length }),
};

export function podSeenOf(state: muster.watch.v1.PodState): PodSeen {
  return {
    pod: state.pod,
    uid: state.uid,
    resourceVersion: state.resourceVersion,
    podIp: state.podIp,
    node: state.node,
    health: healthOf(state.health),
    reason: state.reason,
    message: state.message,
    deleted: state.deleted,
    exitCode: state.exitCode ?? undefined,
  };
}

export function reservationSeenOf(
  reservation: muster.reservation.v1.Reservation.$Properties | null | undefined,
): ReservationSeen {
  const id = reservation?.id ?? "";
  if (reservation?.state === muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED) {
    const machines = (reservation.machines ?? []).map(({ component, node }) => ({
      component: component ?? "",
      node: node ?? "",
    }));
    return { state: "granted", id, machines };
  }
  return { state: "waiting", id, because: waitReasonOf(reservation?.because) };
}

/** What tells whose a reservation is. */
export function foundReservationOf(reservation: muster.reservation.v1.Reservation.$Properties): FoundReservation {
  return {
    id: reservation.id ?? "",
    createdAtMs: reservation.createdAtMs ?? 0,
    needs: (reservation.needs ?? []).map(({ component, pool }) => ({ component: component ?? "", pool: pool ?? "" })),
  };
}

export function ownedReservationOf(reservation: muster.reservation.v1.Reservation.$Properties): OwnedReservation {
  const { id, owner, createdAtMs, state } = reservation;
  const granted = state === muster.reservation.v1.ReservationState.RESERVATION_STATE_GRANTED;
  return { id: id ?? "", session: owner?.id ?? "", createdAtMs: createdAtMs ?? 0, granted };
}

export function ownedReplacementOf(reservation: muster.reservation.v1.Reservation.$Properties): OwnedReplacement {
  const { id, owner, createdAtMs } = reservation;
  return { id: id ?? "", ownerId: owner?.id ?? "", createdAtMs: createdAtMs ?? 0 };
}

/** The name of the session that a grant is for, or a replacement for one of its machines; undefined when it is for another kind of work. */
export function grantedSession(payload: Uint8Array): string | undefined {
  try {
    const { reservation } = muster.reservation.v1.ReservationGranted.decode(payload);
    const kind = reservation?.owner?.kind;
    const id = reservation?.owner?.id ?? "";
    if (kind === REPLACEMENT_KIND) return sessionOfReplacement(id);
    return kind === "session" ? id : undefined;
  } catch {
    // A hint that cannot be read is a hint less: the ledger is asked again anyway.
    return undefined;
  }
}

/** Faults of Reserve after which asking again cannot help. */
export function isRefusal(fault: Fault): fault is Refusal {
  return ["pool_unknown", "pool_capacity", "reservation_differs", "invalid_request"].includes(fault.code);
}

function programOf(component: ComponentProperties) {
  return {
    name: component.name ?? "",
    pool: component.pool ?? "",
    image: component.image ?? "",
    command: component.command ?? [],
    args: component.args ?? [],
    env: (component.env ?? []).map(({ name, value }) => ({ name: name ?? "", value: value ?? "" })),
    workingDir: component.workingDir ?? "",
    readyPort: component.readyPort ?? 0,
    templateJson: component.templateJson ?? "",
  };
}

function specMessage(spec: SessionSpec): SpecProperties {
  return {
    ...spec,
    components: spec.components.map((component) => ({
      ...component,
      kind: KINDS[component.kind],
      command: [...component.command],
      args: [...component.args],
      env: component.env.map(({ name, value }) => ({ name, value })),
    })),
  };
}

function kindOf(kind: muster.session.v1.ComponentKind | null | undefined): ComponentKind | undefined {
  return (Object.keys(KINDS) as ComponentKind[]).find((word) => KINDS[word] === kind);
}

function knownKind(kind: ComponentKind | undefined): ComponentKind {
  if (kind === undefined) throw new Error("a stored component has no kind");
  return kind;
}

function eventOfWire(event: EventProperties): SessionEvent {
  const kind = (Object.keys(EVENTS) as EventKind[]).find((word) => EVENTS[word] === event.kind);
  if (kind === undefined) throw new Error(`a stored event has the unknown kind ${event.kind ?? "none"}`);
  const reason = event.reason ?? "";
  return {
    kind,
    atMs: event.atMs ?? 0,
    description: event.description ?? "",
    reason: reason === "" ? "" : (wordOf(END_REASONS, reason) ?? "OTHER"),
  };
}

function verdictOf(event: EventProperties | null | undefined): Verdict | undefined {
  if (event === null || event === undefined) return undefined;
  const read = eventOfWire(event);
  const kind = wordOf(TERMINAL_KINDS, read.kind);
  if (kind === undefined) throw new Error(`a stored verdict has the kind ${read.kind}`);
  return { ...read, kind };
}

function statusOf(session: string, status: muster.session.v1.ComponentStatus.$Properties): ComponentStatus {
  return {
    name: status.name ?? "",
    kind: knownKind(kindOf(status.kind)),
    pool: status.pool ?? "",
    node: status.node ?? "",
    pod: status.pod ?? `${session}-${status.name ?? ""}`,
    podUid: status.podUid ?? "",
    podIp: status.podIp ?? "",
    state: wordOf(COMPONENT_STATES, status.state ?? "PENDING") ?? "UNKNOWN",
    message: status.message ?? "",
    exitCode: status.exitCode ?? undefined,
    lostAtMs: status.lostAtMs ?? 0,
    lostNode: status.lostNode ?? "",
  };
}

function statusMessage(status: ComponentStatus): muster.session.v1.ComponentStatus.$Properties {
  const { exitCode, ...rest } = status;
  return { ...rest, kind: KINDS[status.kind], ...(exitCode === undefined ? {} : { exitCode }) };
}

function healthOf(health: muster.health.v1.Health): PodHealth {
  const { Health } = muster.health.v1;
  switch (health) {
    case Health.HEALTH_READY:
      return "READY";
    case Health.HEALTH_NOT_READY:
      return "NOT_READY";
    case Health.HEALTH_SUCCEEDED:
      return "SUCCEEDED";
    case Health.HEALTH_FAILED:
      return "FAILED";
    case Health.HEALTH_UNSPECIFIED:
    case Health.HEALTH_UNKNOWN:
      return "UNKNOWN";
  }
}

export function waitReasonOf(
  because: muster.reservation.v1.WaitReason.$Properties | null | undefined,
): WaitReason | undefined {
  if (because === null || because === undefined) return undefined;
  return {
    code: wordOf(WAIT_CODES, because.code) ?? "OTHER",
    pool: because.pool ?? "",
    requested: because.requested ?? 0,
    available: because.available ?? 0,
    ahead: because.ahead ?? 0,
  };
}

/** The one way in for words that others write: what is not one of ours is none. */
function wordOf<Word extends string>(words: readonly Word[], text: string | null | undefined): Word | undefined {
  return words.find((word) => word === text);
}
