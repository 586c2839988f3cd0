import { hasEnded } from "./summarise-components.ts";
import { eventOf, type ComponentStatus, type SessionRecord } from "./session.ts";
import type { SessionStep } from "./session-steps.ts";
import type { Snapshot } from "./snapshot.ts";
import type { Outcome } from "./transition-record.ts";

/** After a write of the record, facts that the API server still has wait this long for the next write. */
export const BRIEF_MS = 1000;

export type SessionPlan = {
  readonly steps: readonly SessionStep[];
  /** When the notes that were left out are due; undefined: none were. */
  readonly notesInMs: number | undefined;
};

/**
 * Leaves notes for people out of a pass over a session that has its machines, if nothing else is written and the record was written less than BRIEF_MS ago.
 * No decision needs them, and another executor sees the same pods.
 */
export function deferNotes(
  { record, trouble }: Pick<Snapshot, "record" | "trouble">,
  steps: readonly SessionStep[],
  unchangedMs: number,
): SessionPlan {
  const inMs = BRIEF_MS - unchangedMs;
  const isYoung = inMs > 0 && trouble === undefined && eventOf(record, "ACCEPT") !== undefined;
  const others = steps.filter((step) => !isNote(record, step));
  if (!isYoung || others.length === steps.length || others.some(isWritten)) return { steps, notesInMs: undefined };
  return { steps: others, notesInMs: inMs };
}

/**
 * Whether another executor would find the outcome again, by the names and states of the pods of a session that has its machines. The first outcome after a
 * take-over is written, because it proves progress.
 */
export function isFoundAgain(record: SessionRecord, outcome: Outcome): boolean {
  if (record.attempts > 0 || eventOf(record, "ACCEPT") === undefined) return false;
  return outcome.kind === "pod-created" || isNote(record, outcome);
}

/** The outcomes of the other steps are not in the record. */
function isWritten({ kind }: SessionStep): boolean {
  return kind !== "delete-pod" && kind !== "collect-logs";
}

function isNote(record: SessionRecord, step: SessionStep | Outcome): boolean {
  if (step.kind !== "note-components") return step.kind === "explain-wait";
  return step.components.every((component, index) => isBrief(component, record.components[index]));
}

/** The same pod on the same machine shows another state, which may change again. */
function isBrief(now: ComponentStatus, before: ComponentStatus | undefined): boolean {
  if (before === undefined || now.podUid !== before.podUid || now.node !== before.node) return false;
  return now.lostAtMs === before.lostAtMs && (now.state === before.state || !hasEnded(now));
}
