import type { Outcome, WorkCondition, WorkEvent } from "./work.ts";

const OUTCOMES = { DONE: "success", ERROR: "failure", CANCELLED: "cancelled", INTERNAL_ERROR: "failure" } as const;

export const TERMINAL_PHASES = ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const;
export const PHASES = ["QUEUE", "ACCEPT", "PROVISION", "RUN", ...TERMINAL_PHASES] as const;
export type Phase = (typeof PHASES)[number] | "UNKNOWN";

/** The outcome of a session whose last event has this phase; undefined before its end. */
export function outcomeOf(phase: Phase | undefined): Outcome | undefined {
  const terminal = TERMINAL_PHASES.find((each) => each === phase);
  return terminal === undefined ? undefined : OUTCOMES[terminal];
}

/** Each phase is a condition that stays true once the session has entered it, so that a wait does not miss a short phase. */
export function conditionsOf(events: readonly Pick<WorkEvent, "phase">[]): WorkCondition[] {
  return PHASES.map((type) => ({ type, isTrue: events.some(({ phase }) => phase === type) }));
}
