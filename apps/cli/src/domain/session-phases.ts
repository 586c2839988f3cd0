import type { Outcome } from "./work.ts";

const OUTCOMES = { DONE: "success", ERROR: "failure", CANCELLED: "cancelled", INTERNAL_ERROR: "failure" } as const;

export const TERMINAL_PHASES = ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const;
export const PHASES = ["QUEUE", "ACCEPT", "PROVISION", "RUN", ...TERMINAL_PHASES] as const;
export type Phase = (typeof PHASES)[number] | "UNKNOWN";

/** How a session ended whose last event has this phase; undefined while it goes on. */
export function outcomeOf(phase: Phase | undefined): Outcome | undefined {
  const terminal = TERMINAL_PHASES.find((each) => each === phase);
  return terminal === undefined ? undefined : OUTCOMES[terminal];
}
