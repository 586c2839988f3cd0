export { backoffMs, deadline, pause, TIMER_MS_MAX, within } from "./backoff.ts";
export type { BackoffLimits } from "./backoff.ts";
export { makeBell } from "./bell.ts";
export type { Bell } from "./bell.ts";
export { forEachSome } from "./for-each-some.ts";
export { takeTurns } from "./take-turns.ts";
export type { Turns } from "./take-turns.ts";
