import {
  isFinished,
  type ComponentStatus,
  type EventKind,
  type SessionEvent,
  type SessionRecord,
  type SessionWarning,
} from "./session.ts";
import type { RecordStep } from "./session-steps.ts";

/** Changes of the record in one pass: its record-only steps, and the outcomes of the other steps. */
export type SessionOutcome =
  | RecordStep
  | { readonly kind: "pod-created"; readonly component: string; readonly uid: string; readonly node: string }
  | LogsRead
  | { readonly kind: "released" }
  /** The executor stops running the session without having crashed. */
  | { readonly kind: "hand-back" };

/** The logs of one pod are stored, or lost as the warnings state. */
export type LogsRead = {
  readonly kind: "logs-read";
  readonly pod: string;
  readonly warnings: readonly SessionWarning[];
  /** The driver's result; undefined for other pods. */
  readonly resultJson: string | undefined;
};

/**
 * Applies one outcome to the record. Applying an outcome twice has no further effect, so a write that lost a race can be repeated on the newer record. Final
 * fields stay: the verdict is decided once, and after the terminal event only the progress of the clean-up changes.
 */
export function transitionRecord(record: SessionRecord, outcome: SessionOutcome): SessionRecord {
  if (outcome.kind === "hand-back") return { ...record, attempts: Math.max(0, record.attempts - 1) };
  const next = transition(record, outcome);
  // Explaining a wait is no progress.
  return next.attempts === 0 || outcome.kind === "explain-wait" ? next : { ...next, attempts: 0 };
}

function transition(record: SessionRecord, outcome: Exclude<SessionOutcome, { kind: "hand-back" }>): SessionRecord {
  switch (outcome.kind) {
    case "confirm-pods-gone":
      return { ...record, podsDeleted: true, components: record.components.map(stopped) };
    case "released":
      return { ...record, released: true };
    default:
      return isFinished(record) ? record : transitionLive(record, outcome);
  }
}

/** Cancels a session for a user. A session without an executor ends immediately; otherwise the executor ends it. */
export function transitionCancel(record: SessionRecord, nowMs: number): SessionRecord {
  if (isFinished(record)) return record;
  if (record.epoch > 0) return { ...record, cancelRequested: true };
  const verdict = { kind: "CANCELLED", atMs: nowMs, description: "cancelled on request", reason: "" } as const;
  return {
    ...record,
    cancelRequested: true,
    verdict,
    logsCollected: true,
    podsDeleted: true,
    released: true,
    finishedAtMs: nowMs,
    events: withEvent(record.events, verdict),
  };
}

/** Takes the session over: a writer with an older epoch loses it. A process counts as one attempt, however often it has led since. */
export function transitionTakeOver(
  record: SessionRecord,
  { token, executor }: { readonly token: number; readonly executor: string },
): SessionRecord {
  const attempts = record.executor === executor ? record.attempts : record.attempts + 1;
  return { ...record, epoch: token, executor, attempts };
}

function transitionLive(
  record: SessionRecord,
  outcome: Exclude<SessionOutcome, { kind: "confirm-pods-gone" | "released" | "hand-back" }>,
): SessionRecord {
  switch (outcome.kind) {
    case "note-components":
      return record.verdict === undefined ? { ...record, components: outcome.components } : record;
    case "note-reservation":
      return noteReservation(record, outcome);
    case "explain-wait":
      return { ...record, waitingBecause: outcome.text };
    case "confirm-quiet":
      return record;
    case "accept":
      return accept(record, outcome);
    case "record":
      return { ...record, events: withEvent(record.events, outcome.event) };
    case "pod-created":
      return recordCreated(record, outcome);
    case "conclude":
      return record.verdict === undefined ? { ...record, verdict: outcome.verdict, waitingBecause: "" } : record;
    case "logs-read":
      return recordLogsRead(record, outcome);
    case "confirm-logs-read":
      if (record.logsCollected) return record;
      return { ...record, logsCollected: true, logsRead: [], warnings: withWarnings(record, outcome.warnings) };
    case "finish":
      return finish(record, outcome);
  }
}

function noteReservation(
  record: SessionRecord,
  { reservationId, warnings }: Extract<RecordStep, { kind: "note-reservation" }>,
): SessionRecord {
  if (reservationId === record.reservationId) return record;
  return { ...record, reservationId, warnings: withWarnings(record, warnings) };
}

const MAX_WARNINGS = 32;

/** Adds the warnings. The warning about a lost result comes first, so that the limit never drops it. */
function withWarnings(record: SessionRecord, warnings: readonly SessionWarning[]): readonly SessionWarning[] {
  const all = [...record.warnings, ...warnings];
  const ofResult = all.filter(({ code }) => code === "RESULT_LOST");
  return [...ofResult, ...all.filter(({ code }) => code !== "RESULT_LOST")].slice(0, MAX_WARNINGS);
}

function recordLogsRead(
  record: SessionRecord,
  { pod, warnings, resultJson = record.resultJson }: LogsRead,
): SessionRecord {
  if (record.logsCollected || record.logsRead.includes(pod)) return record;
  const read = [...record.logsRead, pod];
  const logsCollected = record.components.every((each) => each.podUid === "" || read.includes(each.pod));
  return {
    ...record,
    logsCollected,
    logsRead: logsCollected ? [] : read,
    warnings: withWarnings(record, warnings),
    resultJson,
  };
}

/** Returns the component after the removal of its pod: a ready component becomes STOPPED; any other state stays as the last known one. */
function stopped(component: ComponentStatus): ComponentStatus {
  return component.state === "READY" ? { ...component, state: "STOPPED" } : component;
}

function accept(record: SessionRecord, step: Extract<RecordStep, { kind: "accept" }>): SessionRecord {
  const machines = new Map(step.machines.map(({ component, pool, node }) => [component, { pool, node }]));
  return {
    ...record,
    waitingBecause: "",
    events: withEvent(record.events, step.event),
    components: record.components.map((component) => ({ ...component, ...machines.get(component.name) })),
  };
}

/** Records the created pod. An earlier executor may have created it on another machine without recording it; that machine becomes the component's. */
function recordCreated(
  record: SessionRecord,
  { component: name, uid, node }: Extract<SessionOutcome, { kind: "pod-created" }>,
): SessionRecord {
  return {
    ...record,
    components: record.components.map((component) =>
      component.name === name && component.podUid === ""
        ? { ...component, podUid: uid, node, state: "CREATED" }
        : component,
    ),
  };
}

function finish(record: SessionRecord, step: Extract<RecordStep, { kind: "finish" }>): SessionRecord {
  const { verdict } = record;
  if (verdict === undefined) return record;
  const events = withEvent(record.events, verdict);
  return {
    ...record,
    warnings: withWarnings(record, step.warnings),
    waitingBecause: "",
    events,
    finishedAtMs: Math.max(step.atMs, events.at(-1)?.atMs ?? 0),
  };
}

const RANK: Readonly<Record<EventKind, number>> = {
  QUEUE: 0,
  ACCEPT: 1,
  PROVISION: 2,
  RUN: 3,
  DONE: 4,
  ERROR: 4,
  CANCELLED: 4,
  INTERNAL_ERROR: 4,
};

/**
 * Appends an event unless an event of its rank or a later rank exists. Events are therefore ordered and unique, with one terminal event at the end. An executor
 * with a slow clock uses the time of the last event.
 */
function withEvent(events: readonly SessionEvent[], event: SessionEvent): readonly SessionEvent[] {
  if (events.some(({ kind }) => RANK[kind] >= RANK[event.kind])) return events;
  return [...events, { ...event, atMs: Math.max(event.atMs, events.at(-1)?.atMs ?? 0) }];
}
