import type { Outcome, WorkCondition, WorkEvent } from "./work.ts";

const OUTCOMES: ReadonlyMap<string | undefined, Outcome> = new Map([
  ["DONE", "success"],
  ["ERROR", "failure"],
  ["CANCELLED", "cancelled"],
  ["INTERNAL_ERROR", "failure"],
]);

export const PHASES = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const;
export type Phase = (typeof PHASES)[number] | "UNKNOWN";

/** Returns the outcome of a session by the phase of its last event; undefined before its end. */
export function findOutcome(phase: Phase | undefined): Outcome | undefined {
  return OUTCOMES.get(phase);
}

/** Each phase is a condition that stays true after the session has entered it, so that a wait cannot miss a short phase. */
export function listConditions(events: readonly Pick<WorkEvent, "phase">[]): WorkCondition[] {
  return PHASES.map((type) => ({ type, isTrue: events.some(({ phase }) => phase === type) }));
}
