import { hasEnded } from "./summarise-components.ts";
import { findEvent, type ComponentStatus, type SessionRecord } from "./session.ts";
import type { SessionStep } from "./session-steps.ts";
import type { Snapshot } from "./snapshot.ts";
import type { SessionOutcome } from "./transition-record.ts";

/** Time after a write of the record for which facts that the API server still has wait for the next write. */
export const NOTE_DELAY_MS = 1000;

export type SessionPlan = {
  readonly steps: readonly SessionStep[];
  /** Time until the deferred notes are due; undefined: no notes are deferred. */
  readonly notesInMs: number | undefined;
};

/**
 * Defers notes for people in a pass over a session with machines, if no other step writes and the last write is younger than NOTE_DELAY_MS. No decision needs
 * the notes, and another executor observes the same pods.
 */
export function deferNotes(
  { record, trouble }: Pick<Snapshot, "record" | "trouble">,
  steps: readonly SessionStep[],
  unchangedMs: number,
): SessionPlan {
  const inMs = NOTE_DELAY_MS - unchangedMs;
  const isYoung = inMs > 0 && trouble === undefined && findEvent(record, "ACCEPT") !== undefined;
  const others = steps.filter((step) => !isNote(record, step));
  if (!isYoung || others.length === steps.length || others.some(isWritten)) return { steps, notesInMs: undefined };
  return { steps: others, notesInMs: inMs };
}

/**
 * Returns whether another executor could derive the outcome from the names and states of the session's pods. The first outcome after a take-over is always
 * written, because it proves progress.
 */
export function isRediscovered(record: SessionRecord, outcome: SessionOutcome): boolean {
  if (record.attempts > 0 || findEvent(record, "ACCEPT") === undefined) return false;
  return outcome.kind === "pod-created" || isNote(record, outcome);
}

/** Outcomes of other steps are not part of the record. */
function isWritten({ kind }: SessionStep): boolean {
  return kind !== "delete-pod" && kind !== "collect-logs";
}

function isNote(record: SessionRecord, step: SessionStep | SessionOutcome): boolean {
  if (step.kind !== "note-components") return step.kind === "explain-wait";
  return step.components.every((component, index) => isPodStateChange(component, record.components[index]));
}

/** Returns whether only the state of one pod on one machine differs. These states are often brief. */
function isPodStateChange(now: ComponentStatus, before: ComponentStatus | undefined): boolean {
  if (before === undefined || now.podUid !== before.podUid || now.node !== before.node) return false;
  return now.lostAtMs === before.lostAtMs && (now.state === before.state || !hasEnded(now));
}
