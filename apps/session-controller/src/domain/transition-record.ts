import { isFinished, type EventKind, type SessionEvent, type SessionRecord, type Warning } from "./session.ts";
import type { RecordStep } from "./plan-session.ts";

/** What a pass has to remember: its record-only steps, and what came of the others. */
export type Outcome =
  | RecordStep
  | { readonly do: "pod-created"; readonly component: string; readonly uid: string }
  | { readonly do: "logs-collected"; readonly warnings: readonly Warning[]; readonly resultJson: string }
  | { readonly do: "released" };

/**
 * The record after one outcome. Replaying an outcome changes nothing, so a write that lost a race may be made again on the newer record. What is final stays:
 * a verdict is decided once, and after the terminal event only the progress of the clean-up still moves.
 */
export function transitionRecord(record: SessionRecord, outcome: Outcome): SessionRecord {
  switch (outcome.do) {
    case "confirm-pods-gone":
      return { ...record, podsDeleted: true };
    case "released":
      return { ...record, released: true };
    default:
      return isFinished(record) ? record : transitionLive(record, outcome);
  }
}

/** A user asks a session to end. One that no executor has ever touched ends here and now; the others are ended by whoever runs them. */
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

/** Whoever writes with an older epoch after this has lost the session. */
export function transitionTakeOver(record: SessionRecord, executor: string): SessionRecord {
  return { ...record, epoch: record.epoch + 1, executor };
}

function transitionLive(
  record: SessionRecord,
  outcome: Exclude<Outcome, { do: "confirm-pods-gone" | "released" }>,
): SessionRecord {
  switch (outcome.do) {
    case "note-components":
      return record.verdict === undefined ? { ...record, components: outcome.components } : record;
    case "note-reservation":
      return { ...record, reservationId: outcome.reservationId };
    case "explain-wait":
      return { ...record, waitingBecause: outcome.text };
    case "accept":
      return accept(record, outcome);
    case "record":
      return { ...record, events: withEvent(record.events, outcome.event) };
    case "pod-created":
      return noteCreated(record, outcome.component, outcome.uid);
    case "conclude":
      return record.verdict === undefined ? { ...record, verdict: outcome.verdict, waitingBecause: "" } : record;
    case "logs-collected":
      if (record.logsCollected) return record;
      return {
        ...record,
        logsCollected: true,
        warnings: [...record.warnings, ...outcome.warnings].slice(0, WARNINGS_MOST),
        resultJson: outcome.resultJson,
      };
    case "finish":
      return finish(record, outcome);
  }
}

const WARNINGS_MOST = 32;

function accept(record: SessionRecord, step: Extract<RecordStep, { do: "accept" }>): SessionRecord {
  const nodes = new Map(step.machines.map(({ component, node }) => [component, node]));
  return {
    ...record,
    waitingBecause: "",
    events: withEvent(record.events, step.event),
    components: record.components.map((component) => ({
      ...component,
      node: nodes.get(component.name) ?? component.node,
    })),
  };
}

function noteCreated(record: SessionRecord, name: string, uid: string): SessionRecord {
  return {
    ...record,
    components: record.components.map((component) =>
      component.name === name && component.podUid === "" ? { ...component, podUid: uid, state: "CREATED" } : component,
    ),
  };
}

function finish(record: SessionRecord, step: Extract<RecordStep, { do: "finish" }>): SessionRecord {
  const { verdict } = record;
  if (verdict === undefined) return record;
  return {
    ...record,
    warnings: [...record.warnings, ...step.warnings].slice(0, WARNINGS_MOST),
    waitingBecause: "",
    events: withEvent(record.events, verdict),
    finishedAtMs: step.atMs,
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

/** Appends an event unless one of its rank or a later one is there: so events stand in order, each once, and one terminal event is last. */
function withEvent(events: readonly SessionEvent[], event: SessionEvent): readonly SessionEvent[] {
  return events.some(({ kind }) => RANK[kind] >= RANK[event.kind]) ? events : [...events, event];
}
