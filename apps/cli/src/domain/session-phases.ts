import type { Outcome, WorkCondition, WorkEvent } from "./work.ts";

const OUTCOMES = { DONE: "success", ERROR: "failure", CANCELLED: "cancelled", INTERNAL_ERROR: "failure" } as const;

export const TERMINAL_PHASES = ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const;
export const PHASES = ["QUEUE", "ACCEPT", "PROVISION", "RUN", ...TERMINAL_PHASES] as const;
export type Phase = (typeof PHASES)[number] | "UNKNOWN";

/** How a session ended whose last event has this phase; undefined while it goes on. */
export function outcomeOf(phase: Phase | undefined): Outcome | undefined {
  const terminal = TERMINAL_PHASES.find((each) => each === phase);
  return terminal === undefined ? undefined : OUTCOMES[terminal];
}

/** Each phase is a condition that is true from when the session came to it: one that it has left again is not missed by who waits for it. */
export function conditionsOf(events: readonly Pick<WorkEvent, "phase">[]): WorkCondition[] {
  return PHASES.map((type) => ({ type, isTrue: events.some(({ phase }) => phase === type) }));
}
